import { expect, test } from 'vitest';
import type { Accounts } from '../../../src/accounts/accounts.ts';
import type { SigningKeys } from '../../../src/accounts/signing-keys.ts';
import { watchAccounts } from '../../../src/admission/account-watch.ts';
import type { Sessions } from '../../../src/admission/sessions.ts';
import type { PartylineError } from '../../../src/protocol/errors.ts';
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
