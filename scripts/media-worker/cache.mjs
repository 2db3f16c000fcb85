/**
 * Media workers that were built or downloaded, kept outside of node_modules, so that neither a
 * reinstall nor a second checkout builds again. A folder's name says what is in it:
 *
 *     3.27.1-linux-x64-prebuilt/mediasoup-worker
 *     3.27.1-linux-x64-built-0123456789-g++-12.2.0/mediasoup-worker
 *
 * The digits stand for how it was built: flags and compatibility headers. The compiler is in the name
 * to keep the systems apart that share a home folder, but one is not needed to find what it built.
 */
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { SetUpFailure } from '../set-up/failure.mjs';
import { mediasoup } from './mediasoup.mjs';
import { recipeHash } from './recipe.mjs';

const name = 'mediasoup-worker';

export const cacheFolder = join(
  process.env.XDG_CACHE_HOME || join(homedir(), '.cache'),
  'partyline',
  'media-worker',
);

const unfinished = join(cacheFolder, 'unfinished');

/** @returns {string[]} paths of the media workers that fit the installed mediasoup and this system */
export function cached() {
  if (!existsSync(cacheFolder)) return [];
  return readdirSync(cacheFolder)
    .filter((key) => key === prebuiltKey() || key.startsWith(builtPrefix()))
    .map((key) => join(cacheFolder, key, name))
    .filter((path) => existsSync(path));
}

export function prebuiltKey() {
  return `${system()}-prebuilt`;
}

/** @param {string} compiler e.g. `g++-12.2.0` */
export function builtKey(compiler) {
  return `${builtPrefix()}${compiler}`;
}

function builtPrefix() {
  return `${system()}-built-${recipeHash()}-`;
}

function system() {
  return `${mediasoup().version}-${process.platform}-${process.arch}`;
}

/**
 * @param {string} key
 * @returns {string} a folder to make the media worker in, on the same disk as its place in the cache
 */
export function workshop(key) {
  const folder = join(unfinished, key);
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new SetUpFailure(
      `Partyline needs a folder to keep its media worker in, and could not make one (${/** @type {Error} */ (error).message}): set XDG_CACHE_HOME to a folder that it can write to.`,
    );
  }
  return folder;
}

/**
 * Moves a finished media worker into the cache, where it appears whole or not at all, and clears up.
 *
 * @param {string} key
 * @param {string} binary
 * @returns {string} its path in the cache
 */
export function keep(key, binary) {
  const folder = join(cacheFolder, key);
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  renameSync(binary, path);
  rmSync(unfinished, { recursive: true });
  return path;
}
