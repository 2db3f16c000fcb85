/** Builds the web pages. */
import { join } from 'node:path';
import { SetUpFailure } from './failure.mjs';
import { exclusively } from './lock.mjs';
import { bin, root } from './project.mjs';
import { CommandFailure, run } from './run.mjs';

const script = join('scripts', 'build-web.mjs');

/** Builds the pages into build/web with the project's Node, unless the script finds them up to date. */
export async function buildWebPage() {
  try {
    await exclusively(`web page of ${root}`, () =>
      run(join(bin, 'node'), [script], {
        log: 'web-page',
        onLine: (line) => process.stdout.write(`${line}\n`),
      }),
    );
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    throw new SetUpFailure(
      `Partyline needs its web page, and could not build it (${error.message}): run "npx node ${script}" to see why.`,
    );
  }
}
