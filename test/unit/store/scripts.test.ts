import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, test } from 'vitest';
import { SCRIPTS } from '../../../src/store/scripts.ts';

const FOLDER = new URL('../../../src/store/scripts/', import.meta.url);
const SRC = new URL('../../../src/', import.meta.url);
const read = (file: string) => readFileSync(new URL(file, FOLDER), 'utf8');

const files = globSync('**/*.lua', { cwd: FOLDER });
const includes = files.filter((file) => file.startsWith('includes/'));
const scripts = files.filter((file) => !file.startsWith('includes/'));

/** Text between the first `--[[` and `]]`, and the rest with what it includes. */
function split(file: string): { head: string; body: string } {
  const [, head = '', own = ''] = /^--\[\[\n(.*?)\n\]\]\n(.*)$/s.exec(read(file)) ?? [];
  const body = own.replaceAll(/^-- @include (\S+)$/gm, (_line, name: string) => {
    return split(`includes/${name}.lua`).body;
  });
  return { head, body };
}

/** Numbers of the `KEYS` or `ARGV` that a text names; "[2…]" and `#ARGV` stand for any number of further ones. */
const named = (text: string, what: 'KEYS' | 'ARGV') =>
  new Set([...text.matchAll(new RegExp(`${what}\\[(\\d+)`, 'g'))].map(([, digits]) => digits));

test.each(scripts)('the head of %s says what it does, takes and returns', (file) => {
  const { head, body } = split(file);
  expect(head).toMatch(/^[A-Z][a-z].*?\.\n\n/s);
  expect(head).toMatch(/^Returns .*\.$/ms);
  expect([...named(head, 'KEYS')]).toEqual(expect.arrayContaining([...named(body, 'KEYS')]));
  expect([...named(head, 'ARGV')]).toEqual(expect.arrayContaining([...named(body, 'ARGV')]));
  const isOpen = /#ARGV|ipairs\(ARGV\)/.test(body);
  expect(/ARGV\[\d…\]/.test(head)).toBe(isOpen);
  // All arguments that a head names are used. Scripts of leases are given keys that some of them
  // leave alone.
  const unused = [...named(head, 'ARGV')].filter((index) => !named(body, 'ARGV').has(index));
  expect(isOpen ? [] : unused).toEqual([]);
});

test.each(includes)('the head of %s says what it is for', (file) => {
  expect(split(file).head).toMatch(/^[A-Z][a-z].*?\n\n(Defines|KEYS)/s);
});

test('every script is registered, every include is included, and nothing is left to include', () => {
  const registered = Object.values(SCRIPTS).map(({ SCRIPT }) => SCRIPT);
  const headOf = (script: string) => script.split('\n]]\n', 1)[0];
  expect(new Set(registered.map(headOf))).toEqual(
    new Set(scripts.map((file) => headOf(read(file)))),
  );
  for (const script of registered) expect(script).not.toMatch(/@include/);
  const included = files.flatMap((file) =>
    [...read(file).matchAll(/^-- @include (\S+)$/gm)].map(([, name]) => name),
  );
  expect(new Set(included)).toEqual(new Set(includes.map((file) => basename(file, '.lua'))));
});

test('every script has a command that is used, and no script is a string elsewhere', () => {
  const sources = globSync('**/*.ts', { cwd: SRC })
    .filter((file) => file !== 'store/scripts.ts')
    .map((file) => readFileSync(new URL(file, SRC), 'utf8'));
  const all = sources.join('\n');
  for (const command of Object.keys(SCRIPTS)) expect(all).toMatch(new RegExp(`\\b${command}\\b`));
  expect(all).not.toMatch(/redis\.call|\.eval\(/);
});
