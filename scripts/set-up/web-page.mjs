/** Builds the web pages. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { SetUpFailure } from './failure.mjs';
import { exclusively } from './lock.mjs';
import { bin, root } from './project.mjs';
import { CommandFailure, run } from './run.mjs';

const script = join('scripts', 'build-web.mjs');

/** Builds the pages into build/web with the project's Node, unless they are up to date. */
export async function buildWebPage() {
  // Looked up without the log of a build: a user who may not write here needs none.
  const check = [script, '--check'];
  if (spawnSync(join(bin, 'node'), check, { cwd: root, stdio: 'ignore' }).status === 0) return;
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
