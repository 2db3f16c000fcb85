import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
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

/** Runs the example with a package and a page of the test's, and clicks on its button. @param fails the call that fails */
async function clickExample(fails: string) {
  const [, example = ''] = /<!-- example -->\n```js\n([^]*?)```/.exec(PAGE)!;
  const calls: string[] = [];
  const call = async (name: string) => {
    calls.push(name);
    if (name === fails) throw new Error('No.');
  };
  const microphone = { track: {}, close: () => calls.push('close') };
  class Client {
    readonly on = () => undefined;
    readonly connect = () => call('connect');
    readonly join = () => call('join');
  }
  const elements: Record<string, Record<string, unknown>> = {};
  const elementOf = (name: string) =>
    (elements[name] ??= {
      addEventListener: (_event: string, listener: unknown) => {
        elements[name]!['click'] = listener;
      },
    });
  runInNewContext(example.replace(/^import .*;$/m, ''), {
    document: { body: { dataset: {} }, querySelector: elementOf },
    PartylineClient: Client,
    Microphone: { open: () => call('open').then(() => microphone) },
  });
  const button = elementOf('#join');
  await (button['click'] as (event: object) => Promise<void>)({ currentTarget: button });
  return { calls, isDisabled: button['disabled'], text: elements['#state']?.['textContent'] };
}

test.each([
  ['open', ['open']],
  ['connect', ['open', 'connect', 'close']],
  ['join', ['open', 'connect', 'join', 'close']],
])('its example leaves no microphone open when %s() fails', async (fails, calls) => {
  expect(await clickExample(fails)).toEqual({ calls, isDisabled: false, text: 'No.' });
});

test('its example joins with a microphone', async () => {
  const { calls, isDisabled } = await clickExample('nothing');
  expect({ calls, isDisabled }).toEqual({ calls: ['open', 'connect', 'join'], isDisabled: true });
});
