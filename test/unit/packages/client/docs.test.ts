import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import * as api from '../../../../packages/client/src/index.ts';
import {
  Microphone,
  PartylineClient,
  reasonForCloseCode,
  TokenError,
} from '../../../../packages/client/src/index.ts';

/** The client's API as docs/client.md describes it. */

const PAGE = readFileSync(join(import.meta.dirname, '../../../../docs/client.md'), 'utf8');

/** The lines of docs/client.md for TypeScript. They are not run: `tsc` checks that they compile. */
export function forms(client: PartylineClient, show: (...words: unknown[]) => void): void {
  const { state } = client;
  if (state.name === 'in_room') show(state.trouble, state.isPlaybackBlocked);
  if (state.name === 'reconnecting' || state.name === 'closed') show(state.reason.message);
  const track = client.peers.get('bob')?.track ?? client.mixTrack;
  if (!track) throw new TokenError(reasonForCloseCode(4401));
}

test('its lines for TypeScript compile', () => {
  const [, lines = ''] = /<!-- forms -->\n```ts\n([^]*?)```/.exec(PAGE) ?? [];
  expect(lines).toContain('state.trouble');
  const source = readFileSync(import.meta.filename, 'utf8');
  expect(source).toContain(lines.replaceAll(/^/gm, '  ').trimEnd());
});

/** Code spans of the page; its blocks of code are examples. */
const SPANS = PAGE.replaceAll(/^```[^]*?^```$/gm, '').match(/`[^`\n]+`/g) ?? [];

test.each([
  ...Object.keys(api),
  ...[PartylineClient, Microphone].flatMap(({ prototype }) =>
    Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor'),
  ),
  'peer',
  'on',
])('it describes %s', (name) => {
  const named = new RegExp(`\\b${name}\\b`);
  expect(SPANS.some((span) => named.test(span))).toBe(true);
});
