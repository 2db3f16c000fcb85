import Fastify from 'fastify';
import { expect, test } from 'vitest';
import { parseQueryString } from '../../../src/http/query-string.ts';

test.each([
  ['', {}],
  ['peer=alice&from=', { peer: 'alice', from: '' }],
  ['peer=M%C3%BCller+1%2B1', { peer: 'Müller 1+1' }],
  ['peer=M%FCller&from=%FF', { peer: 'M\u{fffd}ller', from: '\u{fffd}' }],
  ['peer=a&x=1&peer=b&peer=c', { peer: ['a', 'b', 'c'], x: '1' }],
  ['a=b=c&&d', { a: 'b=c', d: '' }],
  ['peer=100%', { peer: '100%' }],
])('the query "%s"', (text, query) => {
  expect({ ...parseQueryString(text) }).toEqual(query);
});

test('the name of an inherited property is a name like others', () => {
  const query = parseQueryString('__proto__=a&constructor=b&__proto__=c');
  expect(Object.entries(query)).toEqual([
    ['__proto__', ['a', 'c']],
    ['constructor', 'b'],
  ]);
});

test('all but bytes that are not UTF-8 is read as by the parser that Fastify has by itself', async () => {
  const queries = [
    '',
    'a',
    'a=',
    'a=b&a=c',
    'a=%C3%BC+%2B',
    'a=b=c',
    '&&a=1&',
    'a=100%',
    '=b',
    'a[]=1',
  ];
  const read = async (options: object) => {
    const app = Fastify(options);
    app.get('/', ({ query }) => ({ query }));
    const answers = await Promise.all(queries.map((query) => app.inject(`/?${query}`)));
    await app.close();
    return answers.map(({ body }) => body);
  };
  const parsed = await read({ routerOptions: { querystringParser: parseQueryString } });
  expect(parsed).toEqual(await read({}));
});
