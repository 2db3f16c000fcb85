import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type LiveSession, Sessions } from '../../../src/admission/sessions.ts';
import { PeersOfAccounts } from '../../../src/session/peers-of-accounts.ts';

test('values are found by account and peer, and counted', () => {
  const peers = new PeersOfAccounts<string>();
  peers.set(1, 'ada', 'a');
  peers.set(1, 'bob', 'b');
  peers.set(12, 'ada', 'c');
  peers.set(1, 'ada', 'd');
  expect(peers.size).toBe(3);
  expect(peers.get(1, 'ada')).toBe('d');
  expect(peers.get(2, 'ada')).toBeUndefined();
  expect(peers.of(1)).toEqual(['d', 'b']);
  expect(peers.of(2)).toEqual([]);
  expect([peers.firstOf(1), peers.firstOf(12), peers.firstOf(2)]).toEqual(['d', 'c', undefined]);
  expect(peers.accountIds()).toEqual([1, 12]);
  expect([...peers.values()]).toEqual(['d', 'b', 'c']);
  peers.delete(1, 'eve');
  peers.delete(12, 'ada');
  expect(peers.size).toBe(2);
  expect(peers.accountIds()).toEqual([1]);
  peers.clear();
  expect([peers.size, ...peers.values()]).toEqual([0]);
});

test('the sessions of an account are found without a look at those of others', () => {
  const sessions = new Sessions(DEFAULT_TIMINGS.sessions);
  let looks = 0;
  const add = (accountId: number, name: string) => {
    const session = {
      name,
      connectionId: name,
      get account() {
        looks += 1;
        return { id: accountId };
      },
      replace: () => sessions.delete(session),
    } as unknown as LiveSession;
    sessions.add(session);
    return session;
  };
  const others = Array.from({ length: 1000 }, (_, index) => add(index + 2, 'peer'));
  const ada = add(1, 'ada');
  const bob = add(1, 'bob');
  looks = 0;
  expect(sessions.of(1)).toEqual([ada, bob]);
  expect(sessions.accountIds()).toHaveLength(1001);
  expect(looks).toBe(0);
  const again = add(1, 'ada');
  expect(sessions.of(1)).toEqual([bob, again]);
  for (const session of [...others, again, bob]) sessions.delete(session);
  expect([sessions.size, sessions.of(1)]).toEqual([0, []]);
});
