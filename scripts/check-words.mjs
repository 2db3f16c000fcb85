import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { faultsOf } from './words/comment-faults.mjs';

/** Refuses comments that break the rules for words; a list names the files that still await their turn. */

const PROJECT = fileURLToPath(new URL('..', import.meta.url));

const FILES = [
  '*.ts',
  '{src,config,web,workers,bench,test,packages}/**/*.ts',
  'scripts/**/*.mjs',
  'web/**/*.css',
];

/** Files that still have such comments; the list only ever gets shorter. */
const NOT_YET = new Set(
  readFileSync(join(PROJECT, 'scripts/words/not-yet.txt'), 'utf8').split('\n').filter(Boolean),
);

const files = globSync(FILES, { cwd: PROJECT, exclude: ['**/node_modules/**'] });
const faults = files.flatMap((file) =>
  faultsOf(readFileSync(join(PROJECT, file), 'utf8')).map((fault) => ({ file, ...fault })),
);
const listed = new Set(faults.map(({ file }) => file));
for (const file of NOT_YET) {
  if (!listed.has(file)) process.stderr.write(`scripts/words/not-yet.txt need not name ${file}\n`);
}
for (const { file, line, sentence } of faults.filter((fault) => !NOT_YET.has(fault.file))) {
  process.stderr.write(`${file}:${line}: ${sentence}\n`);
  process.exitCode = 1;
}
