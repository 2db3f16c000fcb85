import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { faultsOf } from './words/comment-faults.mjs';

/** Refuses comments that break the rules for words. */

const PROJECT = fileURLToPath(new URL('..', import.meta.url));

const FILES = [
  '*.ts',
  '{src,config,web,workers,bench,test,packages}/**/*.ts',
  'scripts/**/*.mjs',
  'packages/*/*.mjs',
  'examples/**/*.mjs',
  'web/**/*.{css,tsx}',
];

const files = globSync(FILES, { cwd: PROJECT, exclude: ['**/node_modules/**'] });
const faults = files.flatMap((file) =>
  faultsOf(readFileSync(join(PROJECT, file), 'utf8')).map((fault) => ({ file, ...fault })),
);
for (const { file, line, sentence } of faults) {
  process.stderr.write(`${file}:${line}: ${sentence}\n`);
  process.exitCode = 1;
}
