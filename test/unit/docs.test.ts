import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { validate } from '@probelabs/maid';
import { Value } from 'typebox/value';
import { describe, expect, test } from 'vitest';
import { drawPlots } from '../../bench/plots.ts';
import { CLIENT_MESSAGES, parseClientMessage } from '../../src/protocol/client-messages.ts';
import { SERVER_MESSAGES } from '../../src/protocol/messages.ts';
import * as keys from '../../src/store/keys.ts';

const PROJECT = join(import.meta.dirname, '../..');
const read = (page: string) => readFileSync(join(PROJECT, page), 'utf8');
const linesOf = (file: string) => read(file).trimEnd().split('\n').length;

const diagrams = globSync(['*.md', 'docs/*.md'], { cwd: PROJECT }).flatMap((page) =>
  [...read(page).matchAll(/^```mermaid\n(.*?)^```/gms)].map((match, i) => ({
    name: `${page}, diagram ${i + 1}`,
    text: match[1]!,
  })),
);

describe('diagrams', () => {
  test.each(diagrams)('$name parses', ({ text }) => {
    const { type, errors } = validate(text);
    expect(['flowchart', 'sequence']).toContain(type);
    expect(errors.filter(({ severity }) => severity === 'error')).toEqual([]);
  });

  test('a diagram that does not parse is refused', () => {
    expect(validate('sequenceDiagram\n  A->>B without a colon\n').errors).not.toEqual([]);
  });
});

test.each([
  ['README.md', 110],
  ['src/app.ts', 149],
])('%s has at most %i lines', (file, most) => {
  expect(linesOf(file)).toBeLessThanOrEqual(most);
});

describe('docs/decisions.md', () => {
  const page = read('docs/decisions.md');
  const titles = [...page.matchAll(/^## (\d+\. .*)$/gm)].map(([, title]) => title!);

  test('lists each decision once in its index, and has each number once', () => {
    const listed = [...page.matchAll(/^\|.*\| \[(\d+\. .*?)\]\(#/gm)].map(([, title]) => title!);
    expect(titles.length).toBeGreaterThan(100);
    expect(listed.toSorted()).toEqual(titles.toSorted());
    const numbers = titles.map((title) => parseInt(title, 10));
    expect(numbers.filter((number, i) => numbers.indexOf(number) !== i)).toEqual([]);
  });

  test('gives a reason for each file of more than 300 lines, and for no other, and bounds them', () => {
    const [, decision = ''] = /^## 115\. .*$([\s\S]*?)^## /m.exec(page) ?? [];
    const named = [...decision.matchAll(/`([\w/.-]+\.tsx?)`/g)].map(([, file]) => file!);
    const excused = named.filter((file) => !file.startsWith('test/'));
    const pattern = '{src,config,web,workers,bench,packages/*/src}/**/*.{ts,tsx,mjs,lua,css}';
    const long = globSync(pattern, { cwd: PROJECT }).filter((file) => linesOf(file) > 300);
    expect(long.toSorted()).toEqual(excused.toSorted());
    const [, most] = /None has more than (\d+) lines/.exec(decision) ?? [];
    expect(Math.max(...long.map(linesOf))).toBeLessThanOrEqual(Number(most));
  });
});

describe('docs/architecture.md', () => {
  const page = read('docs/architecture.md');

  test('shows ways and sequences', () => {
    const sections = page.split(/^## /m).filter((section) => section.includes('```mermaid'));
    expect(sections.map((section) => section.split('\n', 1)[0])).toEqual([
      'A frame on its way up',
      'Audio from browsers and other nodes',
      'A frame on its way down',
      'Join',
      'One peer, two ways',
      'Resume',
      'Drain',
      'Several processes on one port',
    ]);
  });

  test('names only files that exist', () => {
    const names = [...new Set(page.match(/[\w.-]+(\/[\w.-]+)*\.(tsx?|mjs|lua)\b/g))];
    const folders = '{src,workers,web,packages/*/src,scripts,config,test}';
    const files = globSync(`${folders}/**/*.{ts,tsx,mjs,lua}`, { cwd: PROJECT });
    const isThere = (name: string) =>
      existsSync(join(PROJECT, name)) || files.some((file) => `/${file}`.endsWith(`/${name}`));
    for (const ending of ['.ts', '.tsx', '.lua'])
      expect(names.some((name) => name.endsWith(ending))).toBe(true);
    expect(names.length).toBeGreaterThan(40);
    expect(names.filter((name) => !isThere(name))).toEqual([]);
  });
});

test('docs/security-review.md names tests that exist, for each finding', () => {
  const rows = [
    ...read('docs/security-review.md').matchAll(/^\| (outside|\w\d|by the way) \|.*\|$/gm),
  ];
  const ids = (letter: string, count: number) =>
    Array.from({ length: count }, (_, i) => `${letter}${i + 1}`);
  const found = new Set(rows.map(([, finding]) => finding));
  const single = [...ids('H', 7), ...ids('M', 9), ...ids('L', 8)];
  expect([...found]).toEqual(['outside', ...single, 'by the way']);
  const countOf = (name: string) => rows.filter(([, finding]) => finding === name).length;
  expect([countOf('outside'), countOf('L8'), countOf('by the way')]).toEqual([7, 8, 4]);
  const names = /`(test\/[\w/.-]+)` ("[^"]+"(?:, "[^"]+")*)/g;
  const missing = rows.flatMap(([row]) => {
    const tests = [...row.matchAll(names)].flatMap(([, file, quoted]) =>
      [...quoted!.matchAll(/"([^"]+)"/g)].map(([, name]) => ({ file: file!, name: name! })),
    );
    if (tests.length === 0) return [{ file: row, name: '' }];
    return tests.filter(({ file, name }) => {
      const path = join(PROJECT, file);
      return !existsSync(path) || !readFileSync(path, 'utf8').includes(`'${name}'`);
    });
  });
  expect(missing).toEqual([]);
});

test('docs/plots has the plots of the tables in docs/benchmarks.md', () => {
  const plots = drawPlots(read('docs/benchmarks.md'));
  expect([...plots.keys()].toSorted()).toEqual(
    globSync('*', { cwd: join(PROJECT, 'docs/plots') }).toSorted(),
  );
  for (const [name, svg] of plots)
    expect({ name, svg }).toEqual({ name, svg: read(`docs/plots/${name}`) });
});

test('docs/glossary.md defines each term once', () => {
  const rows = read('docs/glossary.md').match(/^\| .* \|$/gm) ?? [];
  const terms = rows.map((row) => row.split('|')[1]!.trim()).filter((term) => term !== 'term');
  expect(terms.length).toBeGreaterThan(50);
  expect(terms.filter((term, i) => terms.indexOf(term) !== i)).toEqual([]);
});

test('docs/operations/when-something-breaks.md has every close code of docs/protocol.md', () => {
  const codesOf = (page: string) => [
    ...new Set(
      [...read(page).matchAll(/^\| ((?:\d{4}, )*\d{4}) \|/gm)].flatMap(([, codes]) =>
        codes!.split(', '),
      ),
    ),
  ];
  const explained = codesOf('docs/operations/when-something-breaks.md');
  const closes = codesOf('docs/protocol.md').filter((code) => code !== '1000');
  expect(closes.length).toBeGreaterThan(10);
  expect(closes.filter((code) => !explained.includes(code))).toEqual([]);
});

test.each(globSync(['*.md', 'docs/**/*.md'], { cwd: PROJECT }))(
  'tables of %s have as many cells in each row as in their head',
  (page) => {
    const prose = read(page).replaceAll(/^```.*?^```/gms, '');
    const tables = prose.match(/(?:^\|.*\|$\n?)+/gm) ?? [];
    const cellsOf = (row: string) => row.replaceAll(/\\\||`[^`]*`/g, '').split('|').length - 2;
    const uneven = tables.flatMap((table) => {
      const [head = '', ...rows] = table.trimEnd().split('\n');
      return rows.filter((row) => cellsOf(row) !== cellsOf(head));
    });
    expect(uneven).toEqual([]);
  },
);

test('CHANGELOG.md sorts its entries into Added, Changed and Fixed', () => {
  const versions = read('CHANGELOG.md')
    .split(/^## .*$/m)
    .slice(1);
  expect(versions.length).toBeGreaterThan(1);
  for (const version of versions) {
    const headings = [...version.matchAll(/^### (.*)$/gm)].map(([, heading]) => heading);
    expect(headings.length).toBeGreaterThan(0);
    expect(['Added', 'Changed', 'Fixed'].filter((heading) => headings.includes(heading))).toEqual(
      headings,
    );
    const [before = ''] = version.split(/^### /m);
    expect(before).not.toMatch(/^- /m);
  }
});

describe('docs/protocol.md', () => {
  const page = read('docs/protocol.md');
  const shown = [...page.matchAll(/^← (\{.*)$/gm)].map(
    ([, line]) => JSON.parse(line!) as { type: keyof typeof SERVER_MESSAGES },
  );

  test.each(shown)('shows a message $type as its schema has it', (message) => {
    expect(Value.Errors(SERVER_MESSAGES[message.type], message)).toEqual([]);
  });

  const asked = [...page.slice(page.indexOf('## 9.')).matchAll(/^→ (\{.*)$/gm)].map(([, line]) =>
    parseClientMessage(line!),
  );

  test.each(Object.entries(CLIENT_MESSAGES))(
    'shows the message %s of the client, valid and with each of its fields',
    (type, { properties }) => {
      const filled = new Set(asked.filter((each) => each.type === type).flatMap(Object.keys));
      expect(Object.keys(properties).filter((field) => !filled.has(field))).toEqual([]);
    },
  );

  test.each(Object.entries(SERVER_MESSAGES))(
    'shows the message %s with each of its fields',
    (type, { properties }) => {
      const fields = Object.keys(properties);
      const filled = new Set(shown.filter((each) => each.type === type).flatMap(Object.keys));
      // Every answer may have `reply_to`.
      expect(fields.filter((field) => field !== 'reply_to' && !filled.has(field))).toEqual([]);
    },
  );
});

test('the index of docs/decisions.md leads to decisions', () => {
  const page = read('docs/decisions.md');
  const indexed = [...page.matchAll(/^\| \w+ \| \[(\d+)\. (.+?)\]\(#/gm)];
  const missing = indexed.filter(([, number, title]) => !page.includes(`## ${number}. ${title}\n`));
  expect(indexed.length).toBeGreaterThan(70);
  expect(missing.map(([row]) => row)).toEqual([]);
});

describe('docs/redis.md', () => {
  const page = read('docs/redis.md');
  const names = [...page.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name!);
  /** Braces stand for values: `account:{id}` is `account:{}` here. */
  const named = new Set(names.map((name) => name.replaceAll(/\{\w+\}/g, '{}')));
  const { KEY_PREFIX, ...others } = keys;
  const isPrefix = (name: string) => /prefix$/i.test(name);
  const made = Object.entries(others)
    .filter(([name]) => !isPrefix(name))
    .flatMap(([, key]) =>
      typeof key === 'string'
        ? key
        : (key as (...values: string[]) => string | string[] | undefined)('{}', '{}'),
    )
    // Not what reads a key.
    .filter((key) => typeof key === 'string')
    .map((key) => key.slice(KEY_PREFIX.length).replaceAll('\n', String.raw`\n`));

  test('has every key and channel, by its whole name, and no other', () => {
    expect(made.length).toBeGreaterThan(55);
    expect(made.filter((key) => !named.has(key))).toEqual([]);
    // Names that end in dots are those of libraries.
    const strays = [...named].filter((name) => !name.endsWith('…') && !made.includes(name));
    expect(strays).toEqual([]);
    expect([...named].filter((name) => name.endsWith('…'))).toEqual(['limit:{}:…', 'bullmq:…']);
  });

  test.each([
    ['usage', keys.USAGE_PREFIX],
    ['webhooks', keys.WEBHOOK_PREFIX],
  ])('src/store/keys.ts has the names that scripts of %s put together', (folder, prefix) => {
    const pattern = `src/store/scripts/{${folder},includes}/*.lua`;
    const scripts = globSync(pattern, { cwd: PROJECT }).map(read);
    const own = scripts.filter((text) => text.includes(`prefix of ${folder}`)).join('\n');
    const parts = own.matchAll(/(?:KEYS\[1\]|\bprefix) \.\. '(\w+:?)'/g);
    const used = new Set(
      [...parts].map(([, part]) => `${prefix}${part!}`.slice(KEY_PREFIX.length)),
    );
    const isMade = (name: string) =>
      made.some((key) => (name.endsWith(':') ? key.startsWith(name) : key === name));
    expect(used.size).toBeGreaterThan(3);
    expect([...used].filter((name) => !isMade(name))).toEqual([]);
  });
});
