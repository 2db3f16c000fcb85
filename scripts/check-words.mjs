import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { clockFaultsOf } from './words/clock-faults.mjs';
import { faultsOf, luaFaultsOf } from './words/comment-faults.mjs';
import { markdownFaultsOf } from './words/markdown-faults.mjs';

/** Refuses comments and pages that break the rules for words, and names of times that mix two clocks. */

const PROJECT = fileURLToPath(new URL('..', import.meta.url));

const COMMENTED = [
  '*.ts',
  '{src,config,web,workers,bench,test,packages}/**/*.ts',
  'scripts/**/*.mjs',
  'packages/*/*.mjs',
  'examples/**/*.mjs',
  'web/**/*.{css,tsx}',
];
/** Test of the rules, with examples of what they refuse. */
const EXAMPLES = 'test/unit/scripts/words/clock-faults.test.ts';
const SCRIPTS = ['src/**/*.lua'];
const PAGES = ['*.md', '{docs,packages,examples,test}/**/*.md'];

/**
 * Finds the faults of files.
 * @param {string[]} patterns
 * @param {(text: string) => { line: number, sentence: string }[]} find
 */
const faultsIn = (patterns, find) =>
  globSync(patterns, { cwd: PROJECT, exclude: ['**/node_modules/**'] }).flatMap((file) =>
    find(readFileSync(join(PROJECT, file), 'utf8')).map((fault) => ({ file, ...fault })),
  );

const faults = [
  ...faultsIn(COMMENTED, faultsOf),
  ...faultsIn(SCRIPTS, luaFaultsOf),
  ...faultsIn(PAGES, markdownFaultsOf),
  ...faultsIn(COMMENTED, clockFaultsOf).filter(({ file }) => file !== EXAMPLES),
];
/** Maximum length of a line comment, columns. */
const MAX_COLUMNS = 100;
const longComments = faultsIn(COMMENTED, (text) =>
  text.split('\n').flatMap((code, index) => {
    const isLong = code.length > MAX_COLUMNS && code.trimStart().startsWith('// ');
    return isLong ? [{ line: index + 1, sentence: 'The comment is longer than a line.' }] : [];
  }),
);

for (const { file, line, sentence } of [...faults, ...longComments]) {
  process.stderr.write(`${file}:${line}: ${sentence}\n`);
  process.exitCode = 1;
}
