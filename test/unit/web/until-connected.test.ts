import { expect, test, vi } from 'vitest';
import type { PartylineClient } from 'partyline-client';
import { untilConnected } from '../../../web/until-connected.ts';
import { microphoneWords } from '../../../web/words.ts';

/** A client whose state the test changes. */
function clientIn(name: string) {
  const listeners = new Set<() => void>();
  const client = {
    state: { name },
    on: (_type: string, listener: () => void) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  const become = (next: string) => {
    client.state = { name: next };
    for (const listener of listeners) listener();
  };
  return { client: client as unknown as PartylineClient, become, listeners };
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

test('untilConnected() leaves no listener behind', async () => {
  const { client, become, listeners } = clientIn('reconnecting');
  const { signal } = new AbortController();
  const added = vi.spyOn(signal, 'addEventListener');
  const removed = vi.spyOn(signal, 'removeEventListener');
  const waiting = untilConnected(client, signal);
  for (let i = 0; i < 3; i += 1) {
    become('reconnecting');
    await new Promise(setImmediate);
    expect(listeners.size).toBe(1);
  }
  become('lobby');
  await waiting;
  expect(listeners.size).toBe(0);
  expect(removed).toHaveBeenCalledTimes(added.mock.calls.length);
});

test('microphoneWords() says that nobody hears you only where no other microphone is open', () => {
  const error = new DOMException('', 'NotReadableError');
  expect(microphoneWords(error, false)).toContain('nobody hears you');
  expect(microphoneWords(error, true)).toContain('The previous microphone stays in use.');
});
