/** Finds programs the way a shell does. */
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { bin } from './project.mjs';

/** PATH of the machine's own programs: without the folders that npm adds. */
export const machinePath = (process.env.PATH ?? '')
  .split(delimiter)
  .filter((folder) => folder !== '' && !folder.endsWith(join('node_modules', '.bin')))
  .join(delimiter);

/**
 * @param {string} program
 * @returns {string | undefined} path of the program; the machine's own is preferred to the project's
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
    // It does not exist, or this user may not run it.
    return false;
  }
}
