/**
 * Builds the pages with vite (web/vite.config.ts) into build/web/. Plain JavaScript, for the Node that set-up finds.
 * Does nothing when the build that is there was made of the same files. With `--check` it only tells by its exit code whether that is so.
 */
import { createHash, randomUUID } from 'node:crypto';
import { existsSync, globSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const TARGET = join(ROOT, 'build', 'web');
const STAMP = join(TARGET, '.stamp.json');
/** Everything that the result depends on: the sources, this script, and the installed versions. */
const SOURCES = [
  '{web,packages/client/src,src/protocol,src/operator}/**/*.*',
  'scripts/build-web.mjs',
  'tsconfig.json',
  'package-lock.json',
];

/** @param {string} fingerprint of the sources */
async function buildWeb(fingerprint) {
  const { build } = await import('vite');
  const built = await build({
    configFile: join(ROOT, 'web/vite.config.ts'),
    // Files are replaced one by one, because a gateway may be serving them.
    build: { write: false },
  });
  if (Array.isArray(built) || !('output' in built)) throw new TypeError('vite made no pages.');
  // Pages come after the scripts that they name.
  const files = built.output.toSorted((a, b) => Number(isPage(a)) - Number(isPage(b)));
  for (const file of files) {
    await replaceFile(join(TARGET, file.fileName), file.type === 'chunk' ? file.code : file.source);
  }
  const names = files.map(({ fileName }) => fileName);
  // The last one, so that a build that broke off is made again.
  await replaceFile(STAMP, JSON.stringify({ fingerprint, files: names }));
}

/** @param {string} fingerprint of the sources */
async function isBuiltOf(fingerprint) {
  if (!existsSync(STAMP)) return false;
  const last = JSON.parse(await readFile(STAMP, 'utf8'));
  return (
    last.fingerprint === fingerprint &&
    last.files.every((/** @type {string} */ name) => existsSync(join(TARGET, name)))
  );
}

/** @param {{ fileName: string }} file */
const isPage = ({ fileName }) => fileName.endsWith('.html');

/** @param {string[]} files */
async function fingerprintOf(files) {
  const hash = createHash('sha256');
  for (const file of files) {
    hash
      .update(`${file}\0`)
      .update(await readFile(join(ROOT, file)))
      .update('\0');
  }
  return hash.digest('hex');
}

/**
 * Writes a whole file at once: a gateway that serves it, and a second build at the same time, never read half of it.
 *
 * @param {string} path
 * @param {string | Uint8Array} contents
 */
async function replaceFile(path, contents) {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${randomUUID()}.tmp`;
  await writeFile(temporary, contents);
  await rename(temporary, path);
}

const fingerprint = await fingerprintOf(globSync(SOURCES, { cwd: ROOT }).toSorted());
const isCurrent = await isBuiltOf(fingerprint);
if (process.argv.includes('--check')) process.exitCode = isCurrent ? 0 : 1;
else if (!isCurrent) await buildWeb(fingerprint);
