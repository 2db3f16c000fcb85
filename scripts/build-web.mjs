/**
 * Builds the page: web/ → build/web/, which the gateway serves at `/`. Plain JavaScript, for the Node that set-up finds.
 * Does nothing when what it would read is what it read last time.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import process from 'node:process';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCE = join(ROOT, 'web');
const TARGET = join(ROOT, 'build', 'web');
const COPIED = ['index.html', 'style.css', 'icon.svg'];
const STAMP = '.stamp';

/** Builds the page if anything changed. @returns {Promise<boolean>} whether it did */
export async function buildWeb() {
  const stamp = await fingerprint();
  if ((await readText(join(TARGET, STAMP))) === stamp && (await isWhole())) return false;
  const { build } = await import('esbuild');
  const { outputFiles } = await build({
    absWorkingDir: ROOT,
    entryPoints: { main: 'web/main.ts' },
    outdir: TARGET,
    bundle: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    sourcemap: true,
    logLevel: 'warning',
    write: false,
  });
  await mkdir(TARGET, { recursive: true });
  for (const { path, contents } of outputFiles) await replaceFile(path, contents);
  for (const name of COPIED)
    await replaceFile(join(TARGET, name), await readFile(join(SOURCE, name)));
  await replaceFile(join(TARGET, STAMP), stamp); // last: a build that broke off is done again
  return true;
}

/** Everything that the result depends on: the sources, this script, and the installed versions. */
async function fingerprint() {
  const hash = createHash('sha256');
  const names = (await readdir(SOURCE)).toSorted();
  const files = [
    ...names.map((name) => join(SOURCE, name)),
    fileURLToPath(import.meta.url),
    join(ROOT, 'package-lock.json'),
  ];
  for (const file of files)
    hash
      .update(`${file}\0`)
      .update(await readFile(file))
      .update('\0');
  return hash.digest('hex');
}

async function isWhole() {
  const present = new Set(await readdir(TARGET));
  return [...COPIED, 'main.js', 'main.js.map'].every((name) => present.has(name));
}

/**
 * Never half a file for a gateway that is serving it, nor for a second build at the same time.
 *
 * @param {string} path
 * @param {string | Uint8Array} contents
 */
async function replaceFile(path, contents) {
  const temporary = `${path}.${randomUUID()}.tmp`;
  await writeFile(temporary, contents);
  await rename(temporary, path);
}

/**
 * @param {string} path
 * @returns {Promise<string | undefined>} undefined when there is no such file
 */
async function readText(path) {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildWeb();
