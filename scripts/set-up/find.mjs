/** Finds programs the way a shell does. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { bin } from './project.mjs';

/** PATH without what npm puts in front: the machine's own programs. */
export const machinePath = (process.env.PATH ?? '')
  .split(delimiter)
  .filter((folder) => folder !== '' && !folder.endsWith(join('node_modules', '.bin')))
  .join(delimiter);

/**
 * @param {string} program
 * @returns {string | undefined} its path, among the machine's programs and then the project's
 */
export function find(program) {
  return [...machinePath.split(delimiter), bin]
    .map((folder) => join(folder, program))
    .find(isExecutable);
}

/** @param {string} path */
function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    // Not there or not ours to run: either way, no program.
    return false;
  }
}
