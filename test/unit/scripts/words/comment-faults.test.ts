import { expect, test } from 'vitest';
import { faultsOf, luaFaultsOf } from '../../../../scripts/words/comment-faults.mjs';

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
