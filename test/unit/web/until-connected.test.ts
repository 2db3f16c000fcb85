import { expect, test } from 'vitest';
import type { PartylineClient } from 'partyline-client';
import { untilConnected } from '../../../web/until-connected.ts';
import { microphoneWords } from '../../../web/words.ts';

/** A client whose state the test changes. */
function clientIn(name: string) {
  const listeners = new Set<() => void>();
  const client = {
    state: { name },
    on: (_type: string, listener: () => void) => void listeners.add(listener),
  };
  const become = (next: string) => {
    client.state = { name: next };
    for (const listener of listeners) listener();
  };
  return { client: client as unknown as PartylineClient, become };
}

test('untilConnected() waits while the client reconnects, and no longer than its page needs it', async () => {
  const { client, become } = clientIn('reconnecting');
  const ending = new AbortController();
  let isOver = false;
  const waiting = untilConnected(client, ending.signal).then(() => (isOver = true));
  become('reconnecting');
  await new Promise(setImmediate);
  expect(isOver).toBe(false);
  become('lobby');
  await waiting;
  const other = untilConnected(clientIn('reconnecting').client, ending.signal);
  ending.abort();
  await other;
});

test('microphoneWords() says that nobody hears you only where no other microphone is open', () => {
  const error = new DOMException('', 'NotReadableError');
  expect(microphoneWords(error, false)).toContain('nobody hears you');
  expect(microphoneWords(error, true)).toContain('The previous microphone stays in use.');
});
