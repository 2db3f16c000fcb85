import { basename } from 'node:path';

/**
 * Puts what belongs to a test's machine in place of what a shipped file has.
 * @throws {Error} if the file does not have it
 */
export function replaceAll(file: string, text: string, replacements: [string, string][]): string {
  return replacements.reduce((before, [from, to]) => {
    if (!before.includes(from)) throw new Error(`${basename(file)} has no "${from}"`);
    return before.replaceAll(from, to);
  }, text);
}
