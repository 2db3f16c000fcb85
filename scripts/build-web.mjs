/**
 * Builds the pages: web/ → build/web/, which the gateway serves at `/` (web/admin/ at `/admin`). Plain JavaScript, for the
 * Node that set-up finds.
 * Does nothing when what it would read is what it read last time.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import process from 'node:process';
import { OUTSIDE_THE_PAGE } from '../packages/client/outside-the-page.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SOURCE = join(ROOT, 'web');
const CLIENT = join(ROOT, 'packages', 'client');
const TARGET = join(ROOT, 'build', 'web');
const COPIED = [
  'index.html',
  'style.css',
  'room.css',
  'icon.svg',
  'admin/index.html',
  'admin/admin.css',
  'admin/rooms.css',
];
/** Programs of each page, by what they become; what one loads when it first needs it becomes a file of its own. */
const PAGES = [
  { main: 'web/main.ts', 'qr-code': 'web/qr-code.ts' },
  { 'admin/main': 'web/admin/main.ts' },
];
const STAMP = '.stamp';

/** Builds the pages if anything changed. @returns {Promise<boolean>} whether it did */
export async function buildWeb() {
  const stamp = await fingerprint();
  if ((await readText(join(TARGET, STAMP))) === stamp && (await isWhole())) return false;
  const { build } = await import('esbuild');
  await mkdir(join(TARGET, 'admin'), { recursive: true });
  const common = /** @type {const} */ ({
    outdir: TARGET,
    bundle: true,
    target: 'es2022',
    minify: true,
    sourcemap: true,
    logLevel: 'warning',
    write: false,
  });
  const builds = [
    ...PAGES.map((entryPoints) =>
      build({ ...common, absWorkingDir: ROOT, entryPoints, splitting: true, format: 'esm' }),
    ),
    build({ ...common, absWorkingDir: CLIENT, ...OUTSIDE_THE_PAGE }),
  ];
  for (const { outputFiles } of await Promise.all(builds)) {
    for (const { path, contents } of outputFiles) await replaceFile(path, contents);
  }
  for (const name of COPIED)
    await replaceFile(join(TARGET, name), await readFile(join(SOURCE, name)));
  await replaceFile(join(TARGET, STAMP), stamp); // last: a build that broke off is done again
  return true;
}

/** Everything that the result depends on: the sources, this script, and the installed versions. */
async function fingerprint() {
  const hash = createHash('sha256');
  const files = [
    ...(await filesIn(SOURCE)).map((name) => join(SOURCE, name)),
    ...(await filesIn(join(CLIENT, 'src'))).map((name) => join(CLIENT, 'src', name)),
    join(CLIENT, 'outside-the-page.mjs'),
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
  const present = new Set(await filesIn(TARGET));
  const programs = [...PAGES, OUTSIDE_THE_PAGE.entryPoints].flatMap(Object.keys);
  const built = programs.flatMap((name) => [`${name}.js`, `${name}.js.map`]);
  return [...COPIED, ...built].every((name) => present.has(name));
}

/**
 * The files in a folder and in those that it has, sorted.
 *
 * @param {string} folder
 */
async function filesIn(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .toSorted();
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
