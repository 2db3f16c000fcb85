import { expect, onTestFinished, test, vi } from 'vitest';
import type { Accounts } from '../../../src/accounts/accounts.ts';
import type { SigningKeys } from '../../../src/accounts/signing-keys.ts';
import { watchAccounts } from '../../../src/admission/account-watch.ts';
import type { Sessions } from '../../../src/admission/sessions.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import type { SuspendedPeers } from '../../../src/session/suspended-peers.ts';
import { ACCOUNT_CHANGES } from '../../../src/store/keys.ts';
import type { Redis } from '../../../src/store/redis.ts';
import type { ChannelListener } from '../../../src/store/subscriber.ts';
import { silentLog } from '../../support/gateway.ts';

const ACCOUNT = 7;

/** Watches an account with a session and a kept place; Redis does not know the account. */
async function watchMissing({ hasOthers }: { hasOthers: boolean }) {
  const listeners = new Map<string, ChannelListener>();
  const redis = {
    subscribe: (channel: string, listener: ChannelListener) => {
      listeners.set(channel, listener);
      return Promise.resolve();
    },
  } as unknown as Redis;
  const asked = Promise.withResolvers<void>();
  const accounts = {
    find: () => Promise.resolve(undefined),
    findKeyIds: () => Promise.resolve(new Set()),
    hasAny: () => {
      asked.resolve();
      return Promise.resolve(hasOthers);
    },
  } as unknown as Accounts;
  const ended: string[] = [];
  const session = { fail: ({ code }: PartylineError) => ended.push(`session: ${code}`) };
  const place = { end: (reason: string) => ended.push(`place: ${reason}`) };
  const sessions = { of: () => [session], accountIds: () => [ACCOUNT] } as unknown as Sessions;
  const places = { of: () => [place], accountIds: () => [ACCOUNT] } as unknown as SuspendedPeers;
  const keys = { withdrawn: new Set() } as unknown as SigningKeys;
  const timings = { retryAfterMs: 60_000 };
  const watch = await watchAccounts(redis, accounts, keys, sessions, places, silentLog, timings);
  listeners.get(ACCOUNT_CHANGES)!.onGap();
  await asked.promise;
  await new Promise(setImmediate);
  watch.close();
  return ended;
}

test('an account that a restored Redis does not have: its clients are closed, and its places end', async () => {
  expect(await watchMissing({ hasOthers: true })).toEqual([
    'session: unauthorized',
    'place: unauthorized',
  ]);
});

test('a Redis that lost all its data: calls go on', async () => {
  expect(await watchMissing({ hasOthers: false })).toEqual([]);
});

test('changes of a hundred accounts that a Redis which hangs does not tell are a line a second', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const listeners = new Map<string, ChannelListener>();
  const subscribe = async (channel: string, listener: ChannelListener) =>
    void listeners.set(channel, listener);
  const redis = { subscribe } as unknown as Redis;
  const hangs = () => Promise.reject(new PartylineError('overloaded', 'Redis hangs.'));
  const accounts = { find: hangs, findKeyIds: hangs } as unknown as Accounts;
  const accountIds = () => Array.from({ length: 100 }, (_, id) => id);
  const sessions = { of: () => [{}], accountIds } as unknown as Sessions;
  const places = { of: () => [], accountIds } as unknown as SuspendedPeers;
  const error = vi.fn<(fields: object, message: string) => void>();
  const log = { ...silentLog, error } as unknown as typeof silentLog;
  const timings = { retryAfterMs: 2000 };
  const keys = {} as SigningKeys;
  const watch = await watchAccounts(redis, accounts, keys, sessions, places, log, timings);
  listeners.get(ACCOUNT_CHANGES)!.onGap();
  await vi.advanceTimersByTimeAsync(3000);
  watch.close();
  const lines = error.mock.calls.map(([fields, message]) => ({ ...fields, message }));
  expect(lines).toMatchObject([
    { account: 0, unlogged: 0, message: 'change of an account not applied' },
    { account: 0, unlogged: 99, message: 'change of an account not applied' },
  ]);
});
