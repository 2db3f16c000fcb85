import { afterEach, expect, test, vi } from 'vitest';
import { replaced } from '../../../src/protocol/errors.ts';
import type { WebSocketPeer } from '../../../src/rooms/websocket-peer.ts';
import { SuspendedPeers, type SuspendedPlace } from '../../../src/session/suspended-peers.ts';
import { silentLog } from '../../support/gateway.ts';

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** A peer whose connection was lost, and why its place ended. */
function keep(places: SuspendedPeers) {
  const ended: string[] = [];
  const place = {
    account: { id: 1 },
    keyId: 'key',
    room: 'a',
    peer: {
      name: 'ada',
      suspend: () => {},
      close: (reason: string) => ended.push(reason),
    } as unknown as WebSocketPeer,
    log: silentLog,
    reason: 'closed',
    release: () => {},
  } as unknown as SuspendedPlace;
  places.keep(place);
  return { kept: places.get(1, 'ada')!, ended };
}

test('a fault of its peer ends a kept place', () => {
  const places = new SuspendedPeers(60_000);
  const { kept, ended } = keep(places);
  kept.fail(new Error('no media'));
  expect(ended).toEqual(['closed']);
  expect(places.size).toBe(0);
});

test('the account of a kept place is known until its peer has closed, which meters it a last time', () => {
  const places = new SuspendedPeers(60_000);
  const { kept } = keep(places);
  const known: unknown[] = [];
  vi.spyOn(kept.place.peer, 'close').mockImplementation(() => known.push(places.firstOf(1)));
  kept.end('closed');
  expect(known).toEqual([kept]);
  expect(places.firstOf(1)).toBeUndefined();
});

test('a fault that ends a kept place is logged as an error, unless it is the client that came back elsewhere', () => {
  const logged: unknown[] = [];
  const err = new Error('no media');
  for (const fault of [err, replaced()]) {
    const { kept } = keep(new SuspendedPeers(60_000));
    const error = (...line: unknown[]) => logged.push(line);
    kept.place.log = { error, info: () => {} } as never;
    kept.fail(fault);
  }
  expect(logged).toEqual([[{ err }, 'kept place failed']]);
});

test('a node that goes away leaves its places in their rooms, whatever happens to their peers', () => {
  const places = new SuspendedPeers(60_000);
  const { kept, ended } = keep(places);
  places.close();
  kept.fail(new Error('no media'));
  expect(ended).toEqual([]);
});

test('a change of its account applies to a kept place', () => {
  const places = new SuspendedPeers(60_000);
  const { kept, ended } = keep(places);
  const account = { id: 1, name: 'Ada', email: 'ada@b', plan: 'pro', status: 'active' } as const;
  const keys = { keyIds: new Set(['key']), withdrawn: new Set<string>() };
  places.accountChanged(account, keys);
  expect([kept.place.account, ended]).toEqual([account, []]);
  places.accountChanged({ ...account, status: 'suspended' }, keys);
  expect(ended).toEqual(['forbidden']);
});

test('a place ends after its time', () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  const places = new SuspendedPeers(60_000);
  const { ended } = keep(places);
  vi.advanceTimersByTime(59_999);
  expect(ended).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(ended).toEqual(['closed']);
  expect(vi.getTimerCount()).toBe(0);
});

test('a process that stood still keeps a place a little longer, once', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  // A fake setTimeout is never late.
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const places = new SuspendedPeers(60_000);
  const { ended } = keep(places);
  vi.advanceTimersByTime(58_000);
  timers.mock.lastCall![0]();
  vi.advanceTimersByTime(2500);
  timers.mock.lastCall![0]();
  expect(ended).toEqual([]);
  const [end, afterMs] = timers.mock.lastCall!;
  expect(afterMs).toBeLessThanOrEqual(5000);
  vi.advanceTimersByTime(60_000);
  end();
  expect(ended).toEqual(['closed']);
  expect(places.size).toBe(0);
});

test('a process that stood still until just before the end of a place keeps it for 2 s', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const places = new SuspendedPeers(60_000);
  const { ended } = keep(places);
  vi.advanceTimersByTime(59_900);
  timers.mock.lastCall![0]();
  const [end, afterMs] = timers.mock.lastCall!;
  expect({ ended, afterMs }).toEqual({ ended: [], afterMs: 2000 });
  vi.advanceTimersByTime(2000);
  end();
  expect(ended).toEqual(['closed']);
});

test('a client that comes while its place is kept longer takes it', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const cleared = vi.spyOn(globalThis, 'clearTimeout');
  const places = new SuspendedPeers(60_000);
  const { kept, ended } = keep(places);
  vi.advanceTimersByTime(58_000);
  timers.mock.lastCall![0]();
  vi.advanceTimersByTime(4000);
  timers.mock.lastCall![0]();
  expect(places.take(1, 'ada')).toBe(kept);
  expect(cleared).toHaveBeenLastCalledWith(timers.mock.results.at(-1)!.value);
  expect(ended).toEqual([]);
});
