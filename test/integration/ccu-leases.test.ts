import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { PartylineError } from '../../src/protocol/errors.ts';
import { leaseKeys, leaseOrderKey, resumeKey } from '../../src/store/keys.ts';
import { Redis } from '../../src/store/redis.ts';
import { CcuLeases } from '../../src/usage/ccu-leases.ts';
import type { LeaseHolder } from '../../src/usage/lease-holder.ts';
import { LeaseNotes } from '../../src/usage/lease-notes.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { TestRedis } from '../support/redis.ts';

const timings = timingsWith({ leases: { renewEveryMs: 500 } });

/** Leases of two processes that share a Redis, and keep places for `keepMs`. */
async function openTwo(keepMs = 0, leaseTimings = timings.leases) {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-leases-'));
  const server = await TestRedis.start(folder);
  const redis = await Redis.connect({ url: server.url }, silentLog, timings.redis);
  /** Connections whose leases were taken. */
  const taken: string[] = [];
  const onTaken = (_accountId: number, _peer: string, connectionId: string) => {
    taken.push(connectionId);
  };
  const open = () => new CcuLeases(redis, silentLog, onTaken, leaseTimings, keepMs);
  const [one, other] = [open(), open()];
  return {
    taken,
    server,
    redis,
    one,
    other,
    /** Returns Redis's time, ms since 1970. */
    wallMs: async () => {
      const [seconds, microseconds] = await redis.run((client) => client.time());
      return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([one.close(), other.close()]);
      await redis.close();
      await server.kill();
      await rm(folder, { recursive: true });
    },
  };
}

const holder = (connectionId: string) => ({ accountId: 1, peer: 'alice', connectionId });

test('a lease that is handed over counts once, and is given back by who has it', async () => {
  await using leases = await openTwo();
  const alice = holder('first');
  await leases.one.admit(alice, 1, false);
  leases.one.handOver(alice);
  await leases.one.release(alice);
  expect(await leases.one.count(1)).toBe(1);
  await leases.other.admit(alice, 1, true);
  expect(await leases.one.count(1)).toBe(1);
  await leases.other.release(alice);
  expect(await leases.one.count(1)).toBe(0);
});

test('a peer that connects while an older connection of it is being admitted keeps its lease: the older one has been replaced', async () => {
  await using leases = await openTwo();
  const older = holder('older');
  await leases.one.admit(older, 5, false);
  leases.one.handOver(older);
  await leases.one.admit(holder('newer'), 5, false);
  const late = leases.other.admit(older, 5, true);
  await expect(late).rejects.toThrow(PartylineError);
  await expect(late).rejects.toMatchObject({ code: 'replaced' });
  expect(await leases.one.count(1)).toBe(1);
});

test('a lease that is given back while Redis is away: it is free when Redis is there again', async () => {
  await using leases = await openTwo();
  const alice = holder('first');
  await leases.one.admit(alice, 5, false);
  await leases.server.kill();
  await expect(leases.one.release(alice)).rejects.toThrow('cannot be reached');
  await leases.server.restart();
  const held = () => leases.other.count(1).catch(() => undefined);
  await eventually('it is free', async () => (await held()) === 0);
});

test('close(): leases that are still held expire after the given time, but not those that another node has taken over', async () => {
  await using leases = await openTwo(300);
  await leases.one.admit(holder('first'), 5, false);
  await leases.one.admit({ ...holder('second'), peer: 'bob' }, 5, false);
  await leases.other.admit({ ...holder('third'), peer: 'bob' }, 5, false);
  const closesMs = await leases.wallMs();
  await leases.one.close();
  const closedMs = await leases.wallMs();
  const [leasesKey] = leaseKeys(1) as [string];
  const expiryOf = (peer: string) =>
    leases.redis.run((client) => client.zScore(leasesKey, peer)).then(Number);
  expect(await expiryOf('alice')).toBeGreaterThanOrEqual(closesMs + 300);
  expect(await expiryOf('alice')).toBeLessThanOrEqual(closedMs + 300);
  expect(await expiryOf('bob')).toBeGreaterThan(closedMs + 300);
  await eventually('one has run out', async () => (await leases.other.count(1)) === 1);
  await leases.other.release({ ...holder('third'), peer: 'bob' });
});

test('close(): places and settings are kept for the given time, also if it is much longer than a lease', async () => {
  const keepMs = 6 * timings.leases.leaseMs;
  await using leases = await openTwo(keepMs);
  const alice = holder('first');
  await leases.one.admit(alice, 5, false, muted);
  await leases.one.savePlace(alice, kitchen);
  await leases.one.close();
  // Admissions and renewals of other nodes shorten nothing.
  const bob = { ...holder('second'), peer: 'bob' };
  await leases.other.admit(bob, 5, false);
  for (const key of leaseKeys(1)) {
    const leftMs = await leases.redis.run((client) => client.pTTL(key));
    expect(leftMs).toBeGreaterThan(keepMs - timings.leases.leaseMs);
    expect(leftMs).toBeLessThanOrEqual(keepMs);
  }
  const session = { sessionId: 's', settings: '' };
  const resumed = await leases.other.admit(holder('again'), 5, false, session);
  expect(resumed).toMatchObject(asResumed);
});

test('letExpire(): lease, place and settings are renewed no more, and last for the given time', async () => {
  await using leases = await openTwo(1500);
  const alice = holder('first');
  await leases.one.admit(alice, 5, false, muted);
  await leases.one.savePlace(alice, kitchen);
  const askedMs = await leases.wallMs();
  await leases.one.letExpire(alice);
  const setMs = await leases.wallMs();
  const [leasesKey] = leaseKeys(1) as [string];
  const expiresMs = Number(
    await leases.redis.run((client) => client.zScore(leasesKey, alice.peer)),
  );
  expect(expiresMs).toBeGreaterThanOrEqual(askedMs + 1500);
  expect(expiresMs).toBeLessThanOrEqual(setMs + 1500);
  const session = { sessionId: 's', settings: '' };
  const again = holder('again');
  expect(await leases.other.admit(again, 5, false, session)).toMatchObject(asResumed);
  await leases.other.letExpire(again);
  await eventually('it has run out', async () => (await leases.one.count(1)) === 0);
  const { lastPlace, isResumed } = await leases.other.admit(holder('late'), 5, false, session);
  expect({ lastPlace, isResumed }).toEqual({ lastPlace: undefined, isResumed: false });
});

test('leases are in order, also when Redis has lost all', async () => {
  await using leases = await openTwo();
  const orders: number[] = [];
  for (const name of ['first', 'second', 'third']) {
    orders.push((await leases.one.admit(holder(name), 5, false)).order);
  }
  await leases.redis.run((client) => client.flushAll());
  orders.push((await leases.other.admit(holder('fourth'), 5, false)).order);
  expect(orders).toEqual(orders.toSorted((a, b) => a - b));
  expect(new Set(orders).size).toBe(4);
  await leases.other.release(holder('fourth'));
});

test('a failover that loses the admission of the newer connection: it takes its lease back, with place and settings', async () => {
  await using leases = await openTwo();
  const [older, newer] = [holder('older'), holder('newer')];
  await leases.one.admit(older, 5, false, { sessionId: 's', settings: 'first' });
  await leases.one.savePlace(older, { ...kitchen, room: 'hall' });
  const keys = leaseKeys(1);
  // State as the replica has received it.
  const copies = keys.map((key) => `copy of ${key}`);
  const copy = (from: string[], to: string[]) =>
    leases.redis.run((client) =>
      Promise.all(from.map((key, i) => client.copy(key, to[i]!, { REPLACE: true }))),
    );
  await copy(keys, copies);
  await leases.other.admit(newer, 5, false, { sessionId: 's', settings: '' });
  await leases.other.savePlace(newer, kitchen);
  await leases.other.save(newer, muted);
  await copy(copies, keys);
  const stored = (at: number) => leases.redis.run((client) => client.hGet(keys[at]!, 'alice'));
  await expect.poll(() => stored(1)).toBe('newer');
  await expect.poll(() => stored(3)).toBe('s muted');
  expect(await leases.other.findPlace(newer)).toEqual(kitchen);
  expect(leases.taken).not.toContain('newer');
  await eventually('the older one is told', () => leases.taken.includes('older'));
});

test('a holder of an earlier build, whose order is not known, counts as newer', async () => {
  await using leases = await openTwo();
  await leases.one.admit(holder('here'), 5, false);
  await leases.redis.run((client) => client.hSet(leaseKeys(1)[1]!, 'alice', 'there'));
  await eventually('its lease is taken', () => leases.taken.includes('here'));
});

test('a lease that Redis gives after the time-out is given back', async () => {
  await using leases = await openTwo();
  leases.server.hang();
  const late = leases.one.admit(holder('late'), 5, false);
  await expect(late).rejects.toMatchObject({ code: 'overloaded' });
  leases.server.goOn();
  const isGiven = () => leases.redis.run((client) => client.exists('partyline:ccu:1:order'));
  await expect.poll(() => isGiven().catch(() => 0)).toBe(1);
  await eventually('it is free', async () => (await leases.other.count(1)) === 0);
});

const kitchen = { sessionId: 's', room: 'kitchen', kind: 'websocket' } as const;
const muted = { sessionId: 's', settings: 'muted' };
const asResumed = { isResumed: true, settings: 'muted', lastPlace: kitchen };

test('a resumption that Redis answers too late leaves the place and the settings to the next one', async () => {
  await using leases = await openTwo();
  const before = holder('before');
  await leases.one.admit(before, 5, false, muted);
  await leases.one.savePlace(before, kitchen);
  const read = (key: string) => leases.redis.run((client) => client.get(key)).catch(() => null);
  const order = await read(leaseOrderKey(1));
  // Its node does not renew in the meantime.
  leases.one.handOver(before);
  leases.server.hang();
  const late = leases.other.admit(holder('late'), 5, false, { sessionId: 's', settings: '' });
  await expect(late).rejects.toMatchObject({ code: 'overloaded' });
  leases.server.goOn();
  const isGranted = async () => ![null, order].includes(await read(leaseOrderKey(1)));
  await eventually('the lease is granted', isGranted);
  const holders = () => leases.redis.run((client) => client.hGetAll(leaseKeys(1)[1]!));
  await expect.poll(holders).toEqual({});
  const next = await leases.other.admit(holder('next'), 5, false, { sessionId: 's', settings: '' });
  expect(next).toMatchObject(asResumed);
});

test('a resumption that fails after its admission leaves the place to the next one, and the lease to the connection before', async () => {
  await using leases = await openTwo();
  const before = holder('before');
  await leases.one.admit(before, 5, false, muted);
  await leases.one.savePlace(before, kitchen);
  const failed = holder('failed');
  await leases.other.admit(failed, 5, false, { sessionId: 't', settings: 'fresh' });
  await leases.other.withdraw(failed);
  expect(await leases.other.findPlace(before)).toEqual(kitchen);
  const stored = () => leases.redis.run((client) => client.hGetAll(leaseKeys(1)[3]!));
  // The admission stored those of a new session.
  await expect.poll(stored).toEqual({ alice: 's muted' });
  const again = await leases.other.admit(holder('again'), 5, false, {
    sessionId: 's',
    settings: '',
  });
  expect(again).toMatchObject(asResumed);
});

test('a resumption from the lobby that fails leaves the settings for as long as before, and no lease', async () => {
  const keepMs = 2 * timings.leases.leaseMs;
  await using leases = await openTwo(keepMs);
  const before = holder('before');
  await leases.one.admit(before, 5, false, muted);
  await leases.one.release(before, keepMs);
  const failed = holder('failed');
  await leases.other.admit(failed, 5, false, { sessionId: 's', settings: '' });
  await leases.other.withdraw(failed);
  expect(await leases.other.count(1)).toBe(0);
  const leftMs = await leases.redis.run((client) => client.pTTL(resumeKey(1, 'alice')));
  expect(leftMs).toBeGreaterThan(timings.leases.leaseMs);
  const next = await leases.other.admit(holder('next'), 5, false, { sessionId: 's', settings: '' });
  expect(next).toMatchObject({ isResumed: true, settings: 'muted' });
});

test('a room and settings that Redis did not take are written when it is back', async () => {
  await using leases = await openTwo();
  const alice = holder('first');
  await leases.one.admit(alice, 5, false, { sessionId: 's', settings: 'first' });
  await leases.server.kill();
  const place = { sessionId: 's', room: 'b', kind: 'websocket' } as const;
  await expect(leases.one.savePlace(alice, place)).rejects.toMatchObject({ code: 'overloaded' });
  const session = { sessionId: 's', settings: 'second' };
  await expect(leases.one.save(alice, session)).rejects.toMatchObject({ code: 'overloaded' });
  await leases.server.restart();
  const found = () => leases.other.findPlace(alice).catch(() => undefined);
  await eventually('the room is there', async () => (await found())?.room === 'b');
  const stored = () => leases.redis.run((client) => client.hGet(leaseKeys(1)[3]!, 'alice'));
  await expect.poll(stored).toBe('s second');
});

test('a room and settings that a failover has set back are written again after the reconnect', async () => {
  await using leases = await openTwo();
  const alice = holder('first');
  await leases.one.admit(alice, 5, false, { sessionId: 's', settings: 'heard' });
  await leases.one.savePlace(alice, kitchen);
  await leases.one.save(alice, muted);
  const [, , placesKey, settingsKey] = leaseKeys(1) as [string, string, string, string];
  await leases.redis
    .run(async (client) => {
      await client.hSet(settingsKey, 'alice', 's heard');
      await client.hSet(placesKey, 'alice', JSON.stringify({ ...kitchen, room: 'hall' }));
      // Ends the connections of this process, as a failover does.
      await client.clientKill({ filter: 'SKIPME', skipMe: false });
    })
    .catch(() => {});
  const stored = () =>
    leases.redis.run((client) => client.hGet(settingsKey, 'alice')).catch(() => '');
  await expect.poll(stored).toBe('s muted');
  await eventually(
    'the room is back',
    async () => (await leases.one.findPlace(alice))?.room === 'kitchen',
  );
});

test('leases that expired while Redis was disconnected are renewed after the reconnect, before others can evict them', async () => {
  const { leases: rarely } = timingsWith({ leases: { renewEveryMs: 600_000 } });
  await using leases = await openTwo(0, rarely);
  const alice = holder('first');
  await leases.one.admit(alice, 1, false, muted);
  await leases.one.savePlace(alice, kitchen);
  const [leasesKey] = leaseKeys(1) as [string];
  await leases.redis
    .run(async (client) => {
      // As after an outage that was longer than a lease.
      await client.zAdd(leasesKey, { value: 'alice', score: 1 });
      await client.clientKill({ filter: 'SKIPME', skipMe: false });
    })
    .catch(() => {});
  await expect.poll(() => leases.other.count(1).catch(() => 0)).toBe(1);
  const late = leases.other.admit({ ...holder('second'), peer: 'bob' }, 1, false);
  await expect(late).rejects.toMatchObject({ code: 'ccu_limit' });
  expect(await leases.other.findPlace(alice)).toEqual(kitchen);
  const stored = await leases.redis.run((client) => client.hGet(leaseKeys(1)[3]!, 'alice'));
  expect(stored).toBe('s muted');
});

test('a room and settings that are stored after the admission expire with the leases', async () => {
  await using leases = await openTwo();
  const alice = holder('first');
  await leases.one.admit(alice, 5, false);
  const keys = leaseKeys(1).slice(2, 4);
  // As if they had been lost: keys that are written anew have no expiry of their own.
  await leases.redis.run((client) => client.del(keys));
  // Its leases are not renewed any more, as if the process had died.
  leases.one.handOver(alice);
  const notes = new LeaseNotes(leases.redis);
  await notes.write(alice, 'place', '{}');
  await notes.write(alice, 'settings', 's muted');
  notes.close();
  const { leaseMs } = timings.leases;
  for (const key of keys) {
    const leftMs = await leases.redis.run((client) => client.pTTL(key));
    expect(leftMs).toBeGreaterThan(leaseMs);
    expect(leftMs).toBeLessThanOrEqual(2 * leaseMs);
  }
});

test('a room and settings that Redis has lost are written again with the next renewal', async () => {
  await using leases = await openTwo();
  const [alice, bob, carol] = ['alice', 'bob', 'carol'].map((peer) => ({
    ...holder(`of ${peer}`),
    peer,
  })) as [LeaseHolder, LeaseHolder, LeaseHolder];
  const place = { sessionId: 's', room: 'a', kind: 'websocket' } as const;
  await leases.one.admit(alice, 5, false, { sessionId: 's', settings: 'at first' });
  await leases.one.savePlace(alice, place);
  await leases.one.save(alice, { sessionId: 's', settings: 'muted' });
  await leases.one.admit(bob, 5, false, { sessionId: 't', settings: 'as admitted' });
  const half = { sessionId: 'whip:1', room: 'b', kind: 'webrtc' } as const;
  await leases.one.admitHalf(carol, 5, { place: half, joins: 'whip:', replaces: 'whip:' });
  await leases.redis.run((client) => client.del(leaseKeys(1)));
  const [, , placesKey, settingsKey] = leaseKeys(1) as [string, string, string, string];
  const stored = (key: string) => leases.redis.run((client) => client.hGetAll(key));
  await expect
    .poll(() => stored(settingsKey))
    .toEqual({ alice: 's muted', bob: 't as admitted', carol: 'whip:1 ' });
  await expect
    .poll(() => stored(placesKey))
    .toEqual({ alice: JSON.stringify(place), carol: JSON.stringify(half) });
  const resumed = await leases.other.admit({ ...alice, connectionId: 'later' }, 5, false, {
    sessionId: 's',
    settings: '',
  });
  expect(resumed).toMatchObject({ lastPlace: place, isResumed: true, settings: 'muted' });
});

test('two halves that come at once to two nodes: one takes the lease, and the other finds it', async () => {
  await using leases = await openTwo();
  const half = (node: string, room = 'a', replaces = `whip:${node}`) => ({
    place: { sessionId: `whip:${node}-1`, room, kind: 'webrtc' as const },
    joins: 'whip:',
    replaces,
  });
  const admitted = await Promise.all([
    leases.one.admitHalf(holder('first'), 5, half('n1')),
    leases.other.admitHalf(holder('second'), 5, half('n2')),
  ]);
  const [elsewhere] = admitted.filter((each) => 'elsewhere' in each);
  expect(admitted.filter((each) => 'order' in each)).toHaveLength(1);
  expect(elsewhere).toEqual({ elsewhere: expect.stringMatching(/^whip:n[12]-1$/) });
  expect(await leases.one.count(1)).toBe(1);
  // A session of another room is replaced, as is one that is not joined, and one of the same node.
  for (const later of [half('n3', 'b'), half('n4', 'b', ''), half('n4', 'b')]) {
    const replacing = await leases.other.admitHalf(holder(`of ${later.replaces}`), 5, later);
    expect(replacing).toMatchObject({ lastPlace: { kind: 'webrtc' } });
  }
  // A WebSocket replaces it, too.
  const socket = await leases.one.admit(holder('socket'), 5, false);
  expect(socket.lastPlace).toMatchObject({ sessionId: 'whip:n4-1' });
  expect(await leases.one.count(1)).toBe(1);
});

test('a half finds the session of a later build, whose place has a kind that this one does not know, and takes no lease', async () => {
  await using leases = await openTwo();
  const sessionId = 'whip:later-1';
  const place = { sessionId, room: 'a', kind: 'webrtc' } as const;
  await leases.one.admitHalf(holder('there'), 5, { place, joins: 'whip:', replaces: '' });
  const stored = JSON.stringify({ ...place, kind: 'another' });
  await leases.redis.run((client) => client.hSet(leaseKeys(1)[2]!, 'alice', stored));
  const half = { place: { ...place, sessionId: 'whip:own-1' }, joins: 'whip:' };
  const admitted = leases.other.admitHalf(holder('here'), 5, { ...half, replaces: 'whip:own' });
  expect(await admitted).toEqual({ elsewhere: sessionId });
});
