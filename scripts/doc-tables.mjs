/** Writes the tables of docs/ that are made from the source. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withTables } from './doc-tables/markdown.mjs';
import { TABLES } from './doc-tables/tables.mjs';
import { root } from './set-up/project.mjs';

for (const [page, tables] of Object.entries(TABLES)) {
  const path = join(root, page);
  writeFileSync(path, withTables(readFileSync(path, 'utf8'), tables));
}
