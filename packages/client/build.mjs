/**
 * Builds the package: src/ → dist/. One module with a lazily loaded part, three files that run outside the page, and types. Nothing of it
 * refers to the repository; of other packages only mediasoup-client is left to be installed.
 */
import { spawnSync } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import process from 'node:process';
import { build } from 'esbuild';
import { OUTSIDE_THE_PAGE } from './outside-the-page.mjs';

const PACKAGE = fileURLToPath(new URL('.', import.meta.url));
const ROOT = join(PACKAGE, '../..');
const DIST = join(PACKAGE, 'dist');

const common = /** @type {const} */ ({
  absWorkingDir: PACKAGE,
  outdir: DIST,
  bundle: true,
  target: 'es2022',
  minify: true,
  logLevel: 'warning',
});

await rm(DIST, { recursive: true, force: true });
await build({
  ...common,
  entryPoints: { index: 'src/index.ts' },
  external: ['mediasoup-client'],
  splitting: true,
  format: 'esm',
});
await build({ ...common, ...OUTSIDE_THE_PAGE });
await writeTypes();
await cp(join(ROOT, 'LICENSE'), join(PACKAGE, 'LICENSE'));

/** Writes the declarations that the public ones refer to: no others, because those may name files of the repository. */
async function writeTypes() {
  const emitted = await mkdtemp(join(tmpdir(), 'partyline-client-'));
  try {
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const { status, stdout } = spawnSync(
      process.execPath,
      [tsc, '-p', PACKAGE, '--outDir', emitted],
      {
        encoding: 'utf8',
      },
    );
    if (status !== 0) throw new Error(`tsc failed: ${stdout}`);
    const folder = join(emitted, 'packages/client/src');
    const present = new Set(await readdir(folder));
    const wanted = ['index'];
    for (const name of wanted) {
      const text = await readFile(join(folder, `${name}.d.ts`), 'utf8');
      for (const [, other = ''] of text.matchAll(/from '\.\/([\w-]+)\.ts'/g)) {
        if (!present.has(`${other}.d.ts`)) throw new Error(`${name} refers to ${other}`);
        if (!wanted.includes(other)) wanted.push(other);
      }
      if (/from '\.\./.test(text)) throw new Error(`${name}.d.ts refers to the repository`);
      const rewritten = text.replaceAll(/from '(\.\/[\w-]+)\.ts'/g, "from '$1.js'");
      await writeFile(join(DIST, `${name}.d.ts`), rewritten);
    }
  } finally {
    await rm(emitted, { recursive: true });
  }
}
