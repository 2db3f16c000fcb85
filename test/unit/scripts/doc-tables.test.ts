import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { withTables } from '../../../scripts/doc-tables/markdown.mjs';
import { TABLES } from '../../../scripts/doc-tables/tables.mjs';
import { WHIP_PROBLEMS } from '../../../src/whip/problems.ts';

const PROJECT = join(import.meta.dirname, '../../..');
const read = (page: string) => readFileSync(join(PROJECT, page), 'utf8');

test.each(Object.entries(TABLES))(
  '%s has its tables as `npm run docs` makes them from the source',
  (page, tables) => {
    expect(Object.values(tables).filter((table) => table.split('\n').length < 4)).toEqual([]);
    expect(read(page)).toBe(withTables(read(page), tables));
  },
);

describe('withTables()', () => {
  const page = 'Before.\n\n<!-- one -->\n| a |\n|---|\n| old |\n\nAfter | it.\n';
  const table = '| a |\n|---|\n| new |\n| more |';

  test('replaces a table, and nothing else', () => {
    expect(withTables(page, { one: table })).toBe(
      `Before.\n\n<!-- one -->\n${table}\n\nAfter | it.\n`,
    );
  });

  test.each([
    ['none', { two: table }, page],
    ['two', { one: table }, page + page],
  ])('refuses a page with %s places for a table', (_count, tables, text) => {
    expect(() => withTables(text, tables)).toThrow('There must be one line');
  });
});

test('each error that src/whip makes itself is in the table of WHIP', () => {
  const named = globSync('src/whip/*.ts', { cwd: PROJECT }).flatMap((file) =>
    [...read(file).matchAll(/new PartylineError\(\s*'(\w+)'/g)].map(([, code]) => code!),
  );
  expect(named.length).toBeGreaterThan(10);
  expect(named.filter((code) => !(code in WHIP_PROBLEMS))).toEqual([]);
});
