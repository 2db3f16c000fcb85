/** Paths of this project. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const nodeModules = join(root, 'node_modules');
/** First in PATH for every npm script, so it is where the gateway finds its own Node. */
export const bin = join(nodeModules, '.bin');
/** Folder of everything that set-up makes; git ignores it. */
export const build = join(root, 'build');

/**
 * @param {string} path
 * @returns {any}
 */
export function readJson(path) {
  return JSON.parse(readFileSync(path, 'utf8'));
}
