/**
 * Cache of built and downloaded media workers, outside of node_modules, so that neither a reinstall nor a second checkout
 * builds one again. The name of a folder describes its media worker:
 *
 *     3.27.1-linux-x64-prebuilt/mediasoup-worker
 *     3.27.1-linux-x64-built-0123456789-g++-12.2.0/mediasoup-worker
 *
 * The hexadecimal digits are a hash of the recipe: flags and compatibility headers. The compiler is in the name because systems
 * with other compilers may share a home folder; a media worker is found whatever compiler this system has.
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
    .filter(fits)
    .map((key) => join(cacheFolder, key, name))
    .filter((path) => existsSync(path));
}

/**
 * Returns true if a media worker fits the installed mediasoup and this system.
 *
 * @param {string} key its name in the cache
 */
export function fits(key) {
  return key === prebuiltKey() || key.startsWith(builtPrefix());
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
 * @returns {string} path of a folder in which the media worker is made, on the same disk as the cache
 */
export function workshop(key) {
  const folder = join(unfinished, key);
  try {
    mkdirSync(folder, { recursive: true });
  } catch (error) {
    throw new SetUpFailure(
      `Partyline needs a folder for its media worker, and could not create one (${/** @type {Error} */ (error).message}): set XDG_CACHE_HOME to a folder that it can write to.`,
    );
  }
  return folder;
}

/**
 * Moves a finished media worker into the cache by renaming it, and removes the folder in which it was made.
 *
 * @param {string} key
 * @param {string} binary
 * @returns {string} path of the media worker in the cache
 */
export function keep(key, binary) {
  const folder = join(cacheFolder, key);
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  renameSync(binary, path);
  rmSync(unfinished, { recursive: true });
  return path;
}
