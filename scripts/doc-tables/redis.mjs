import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as keys from '../../src/store/keys.ts';
import { root } from '../set-up/project.mjs';
import { code, tableOf } from './markdown.mjs';

/** Tables of docs/redis.md, made from the comments and values of src/store/keys.ts. */

/** @typedef {string | ((...values: string[]) => string)} Key A key, or the function that makes it. */

const SOURCE = readFileSync(join(root, 'src/store/keys.ts'), 'utf8');
const EXPORTS = /** @type {Record<string, Key>} */ (/** @type {unknown} */ (keys));

/** A doc comment, the name that it describes, and the parameters if that is a function. */
const DESCRIBED = /\/\*\*((?:(?!\*\/)[^])*)\*\/\nexport const (\w+) = (?:\(([^)]*)\) =>)?/g;
const KEY = /^([A-Z][a-z ]+): (.*)\. Writers: (.*?)\. Expiry: (.*?)\.(?: Channel: (.*)\.)?$/;
const CHANNEL = /^Channel: (.*)\.$/;

/** Returns the name of a key or channel as docs/redis.md writes it: values in braces, no prefix. @param {string} name */
function nameOf(name) {
  const key = EXPORTS[name];
  if (key === undefined) throw new Error(`src/store/keys.ts exports no ${name}.`);
  const [, parameters = ''] = new RegExp(`const ${name} = \\(([^)]*)\\)`).exec(SOURCE) ?? [];
  const values = [...parameters.matchAll(/(\w+): /g)].map(
    ([, parameter]) => `{${parameter?.replace(/Id$/, '')}}`,
  );
  const whole = typeof key === 'function' ? key(...values) : key;
  const own = whole.slice(keys.KEY_PREFIX.length).replaceAll('\n', String.raw`\n`);
  return code(/prefix$/i.test(name) ? `${own}:…` : own);
}

/** @param {string} text of a comment */
const cell = (text) =>
  text
    .replaceAll(/\{@link (\w+)\}/g, (_, /** @type {string} */ name) => nameOf(name))
    .replaceAll('|', String.raw`\|`);

/**
 * Returns the tables by name: a table of keys for each part of the file, and a table of channels.
 * @returns {Record<string, string>}
 */
export function redisTables() {
  /** @type {Record<string, string>} */
  const tables = {};
  /** @type {string[][]} */
  const channels = [];
  const [, ...parts] = SOURCE.split(/\n\n\/\/ (?=[A-Z])/);
  for (const part of parts) {
    const rows = [...part.matchAll(DESCRIBED)].flatMap(([, comment = '', name = '']) => {
      const text = comment.replaceAll(/\s+(?:\* )?/g, ' ').trim();
      const [, ofChannel] = CHANNEL.exec(text) ?? [];
      if (ofChannel !== undefined) channels.push([nameOf(name), cell(ofChannel)]);
      const [, type, holds, writers, expiry, published] = KEY.exec(text) ?? [];
      if (!type || !holds || !writers || !expiry) return [];
      if (published !== undefined) channels.push([nameOf(name), cell(published)]);
      return [[nameOf(name), type.toLowerCase(), ...[holds, writers, expiry].map(cell)]];
    });
    const [title = ''] = part.split(/\W/, 1);
    tables[title.toLowerCase()] = tableOf(['key', 'type', 'holds', 'written by', 'expires'], rows);
  }
  return { ...tables, channels: tableOf(['channel', 'message'], channels) };
}
