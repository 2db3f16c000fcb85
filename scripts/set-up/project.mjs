/** Paths of this project. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const nodeModules = join(root, 'node_modules');
/** Folder of the npm packages' programs, among them the project's Node; npm puts it first into PATH. */
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
