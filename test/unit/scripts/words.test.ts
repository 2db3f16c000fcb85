import { expect, test } from 'vitest';
import { clockFaultsOf } from '../../../scripts/words/clock-faults.mjs';
import { faultsOf, luaFaultsOf } from '../../../scripts/words/comment-faults.mjs';
import { markdownFaultsOf } from '../../../scripts/words/markdown-faults.mjs';

const sentences = (text: string) => faultsOf(text).map(({ sentence }) => sentence);

test.each([
  '/** So many are held. */',
  '/** A thread that is silent for so long hangs. */',
  '/** Buckets are removed this often. */',
  '// Who is in a room hears it.',
  '/** What was sent. */',
  '/** Whether it is there. */',
  '/** Of the node. */',
  '/** Those of which not all has come out. */',
  '/** Nobody listens. */',
  '/** Someone else in the room. */',
  '/** Which message answers which request. */',
  '/** Where a peer connects. */',
  '/** How long it takes. */',
  '/** Why it ended. */',
  '/** Our own name. */',
  '/** The client, while he is away. */',
  '/** A speaker who is muted. */',
  '/** All processes, who end. */',
  '/** Names of those who left. */',
  '/** The same for a sender of pieces. */',
  '/** Its last packets. */',
  '/** It hangs. */',
  '/** They are closed. */',
  '/**\n * Their number.\n */',
])('refuses %s', (comment) => {
  expect(sentences(`const a = 1;\n${comment}\nconst b = 2;\n`)).toHaveLength(1);
});

test('refuses a later sentence, a tag, and one that goes over two lines', () => {
  const text = [
    '/**',
    ' * Listeners of a room. Whoever',
    ' * comes later is no listener.',
    ' * @param a what is sent',
    ' * @returns whether it was',
    ' */',
  ].join('\n');
  expect(sentences(text)).toEqual(['Whoever comes later is no listener.']);
});

test('takes "it" and "the same" behind a sentence with their noun, and in line comments', () => {
  const text = `
/** Kept packets. Its order is that of their arrival; the same holds for samples. */
const a = 1;
// It was closed meanwhile.
`;
  expect(sentences(text)).toEqual([]);
});

test('takes plain sentences, and text that is no comment', () => {
  const text = `
/** Listeners whose subscription changed; undefined if nobody listens. */
const a = 'So many'; // a client that is sent what it asked for, so long that it waits
const b = \`
Who writes this?
\`;`;
  expect(sentences(text)).toEqual([]);
});

test('refuses openings in the head and the line comments of a Lua script', () => {
  const text = `--[[
Counts the events of a room. Whoever comes later
is not counted.

KEYS[1]  prefix of webhooks
ARGV[1…] what is counted
Returns how many there are. Of these, none waits.
]]
-- @include now
-- How long it is kept, s.
local KEPT_S = 48 * 3600
-- This is the first.
if KEYS[1] ~= '' then
  -- What comes later is dropped.
end
`;
  expect(luaFaultsOf(text).map(({ sentence }) => sentence)).toEqual([
    'Whoever comes later is not counted.',
    'Of these, none waits.',
    'How long it is kept, s.',
    'What comes later is dropped.',
  ]);
});

test('refuses openings and persons in paragraphs, lists and tables of a page', () => {
  const text = `# A page
It is short. Whoever reads it
knows that.

- What is late is dropped.
- A client, and his packets

| way | How a client is connected |
|---|---|

*Decision.* Nobody is refused. The rest (Which that is) stays.
`;
  expect(markdownFaultsOf(text)).toEqual([
    { line: 2, sentence: 'Whoever reads it knows that.' },
    { line: 5, sentence: 'What is late is dropped.' },
    { line: 6, sentence: 'A client, and his packets' },
    { line: 8, sentence: 'How a client is connected' },
    { line: 11, sentence: 'Nobody is refused.' },
  ]);
});

test('takes headings, questions, titles, code, conditions and proportions of a page', () => {
  const text = `## What clients send

A page. **What usage must be.** Where it is slow, it is late. Of 40 rooms, two were late. Why is it late?

| [98. What clients send](#98-what-clients-send) | The same. It is HE-AAC. |

\`\`\`sh
# Who am I
What he says
\`\`\`
`;
  expect(markdownFaultsOf(text)).toEqual([]);
});

test.each([
  'new Date(nowMs).toISOString()',
  'new Date(this.#sentAtMs)',
  'const nowMs = clock.wallMs();',
  'function keep(nowMs = Date.now()) {}',
  'const options = { nowMs: clock.wallMs };',
  "for (let atMs = Date.parse('2026-01-01'); ;) {}",
  'const wallMs = performance.now();',
  'const clock = { wallMs: () => nowMs };',
  'const ageMs = this.#clock.wallMs() - sentAtMs;',
  'const isDue = nowMs >= this.#dueWallMs;',
  'const ageMs = performance.now() - sentWallMs;',
  'const loggedAtMs = await clock.wallMs();',
  '/** @param nowMs ms since 1970 */',
  '/** Clock of events, ms since 1970. */\n  nowMs: () => number;',
])('refuses two clocks in %s', (code) => {
  expect(clockFaultsOf(`const a = 1;\n${code}\n`)).toMatchObject([{ line: 2 }]);
});

test('takes names of times that keep to their clock', () => {
  const text = `
/**
 * Returns the age of a use.
 * @param wallMs time of the use, ms since 1970
 * @param nowMs time of the monotonic clock, ms
 */
const nowMs = performance.now();
const wallMs = clock.wallMs();
const started = new Date(wallMs - (nowMs - sentAtMs));
const frame = { atMs: nowMs, createdWallMs: Date.parse(text) };
`;
  expect(clockFaultsOf(text)).toEqual([]);
});
