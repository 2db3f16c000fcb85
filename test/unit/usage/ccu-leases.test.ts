import type { FastifyBaseLogger } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { leaseExpiriesKey } from '../../../src/store/keys.ts';
import type { Redis } from '../../../src/store/redis.ts';
import { CcuLeases } from '../../../src/usage/ccu-leases.ts';

const { leases: timings } = DEFAULT_TIMINGS;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

type Command = { keys: string[]; arguments: string[] };

/** Leases in a Redis that grants every lease, until it is away. */
function open() {
  const redis = { isAway: false };
  const written: string[] = [];
  const expirations: string[][] = [];
  const client = {
    admitLease: () => Promise.resolve([1, 1, null, 0, '', 1]),
    renewLeases: ({ keys: [key] }: { keys: string[] }) => {
      written.push(`renewed ${key}`);
      return Promise.resolve([[], [], [], []]);
    },
    letLeasesExpire: ({ keys: [key], arguments: words }: Command) => {
      expirations.push(words);
      written.push(`expiring ${key}`);
      return Promise.resolve();
    },
  };
  const store = {
    run: (work: (commands: typeof client) => Promise<unknown>) =>
      redis.isAway ? Promise.reject(new Error('Redis is away.')) : work(client),
    onReconnect: () => () => {},
  } as unknown as Redis;
  const warn = vi.fn<(fields: object, message: string) => void>();
  const log = { warn } as unknown as FastifyBaseLogger;
  const leases = new CcuLeases(store, log, () => {}, timings, 60_000);
  const warnings = () => warn.mock.calls.map(([, message]) => message);
  return { redis, leases, warnings, written, expirations };
}

const holder = (peer: string) => ({ accountId: 1, peer, connectionId: `of ${peer}` });

test('what Redis does not take is logged by its name: renewals, places, releases, and the expiry at the end', async () => {
  const { redis, leases, warnings } = open();
  const [alice, bob] = [holder('alice'), holder('bob')];
  for (const each of [alice, bob]) await leases.admit(each, 5, false);
  redis.isAway = true;
  const place = { sessionId: 's', room: 'kitchen', kind: 'websocket' } as const;
  await expect(leases.savePlace(alice, place)).rejects.toThrow('away');
  await expect(leases.release(bob)).rejects.toThrow('away');
  await vi.advanceTimersByTimeAsync(timings.renewEveryMs);
  expect(warnings()).toEqual([
    'leases not renewed; retrying',
    'place or settings of a peer not stored; retrying',
    'lease not released; retrying',
  ]);
  await leases.close();
  expect(warnings().slice(3)).toEqual(['expiry of leases not set']);
});

test('leases of a hundred accounts that Redis does not renew are one line', async () => {
  const { redis, leases, warnings } = open();
  for (let accountId = 1; accountId <= 100; accountId += 1) {
    await leases.admit({ ...holder('alice'), accountId }, 5, false);
  }
  redis.isAway = true;
  await vi.advanceTimersByTimeAsync(timings.renewEveryMs);
  expect(warnings()).toEqual(['leases not renewed; retrying']);
  await leases.close();
  expect(warnings().slice(1)).toEqual(['expiry of leases not set']);
});

test('a renewal that is under way when the leases are closed renews no further ones', async () => {
  const { leases, written } = open();
  for (const accountId of [1, 2]) {
    await leases.admit({ accountId, peer: 'alice', connectionId: 'a' }, 5, false);
  }
  vi.advanceTimersByTime(timings.renewEveryMs);
  expect(written).toEqual([`renewed ${leaseExpiriesKey(1)}`]);
  await leases.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(written.slice(1)).toEqual([1, 2].map((id) => `expiring ${leaseExpiriesKey(id)}`));
});

test('a lease that is left to expire lasts for as long as places are kept, and is renewed no more', async () => {
  const { leases, written, expirations } = open();
  const alice = holder('alice');
  await leases.admit(alice, 5, false);
  await leases.letExpire(alice);
  expect(expirations).toEqual([['60000', 'alice', 'of alice']]);
  await vi.advanceTimersByTimeAsync(timings.renewEveryMs);
  expect(written).toEqual([`expiring ${leaseExpiriesKey(1)}`]);
});
