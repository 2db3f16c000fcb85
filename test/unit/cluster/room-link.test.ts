import type { FastifyBaseLogger } from 'fastify';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { Relays } from '../../../src/cluster/relay/relays.ts';
import { RoomLink, type RoomLinkParts } from '../../../src/cluster/room-link.ts';
import { Sealer } from '../../../src/cluster/sealer.ts';
import { LogOnceASecond } from '../../../src/log-once-a-second.ts';
import type { RoomRouter } from '../../../src/media/room-router.ts';
import { roomStateKey } from '../../../src/store/keys.ts';
import type { Redis } from '../../../src/store/redis.ts';
import { FORMAT } from '../../../src/store/state-format.ts';
import type { ChannelListener } from '../../../src/store/subscriber.ts';
import { ignoredRoomEvents } from '../../support/room-events.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const ROOMS = 200;
const MINUTE_MS = 60_000;
const sealer = new Sealer('a key that all nodes know');

/** Rooms of a node, in a Redis that may be away. */
function openNode() {
  const redis = { isAway: false };
  /** Keys of rooms, once for each attempt to write one. */
  const attempts: string[] = [];
  const written: string[] = [];
  const listeners = new Map<string, ChannelListener>();
  const write = ({ keys: [key = ''] }: { keys: string[] }) => {
    attempts.push(key);
    if (redis.isAway) return Promise.reject(new Error('Redis is away.'));
    written.push(key);
    return Promise.resolve();
  };
  const client = {
    writeRoomState: write,
    eraseRoomState: write,
    hGetAll: () => Promise.resolve({}),
  };
  const store = {
    run: (work: (commands: typeof client) => Promise<unknown>) => work(client),
    channelOf: (key: string) => key,
    subscribe: (key: string, listener: ChannelListener) => {
      listeners.set(key, listener);
      return Promise.resolve(() => {});
    },
  } as unknown as Redis;
  const lines: { message: string; room: string; unlogged: number }[] = [];
  const sharedLog = new LogOnceASecond();
  const logOf = (room: string) =>
    ({
      warn: ({ unlogged }: { unlogged: number }, message: string) =>
        void lines.push({ message, room, unlogged }),
    }) as unknown as FastifyBaseLogger;
  let version = 0;
  const partsOf = (room: string): RoomLinkParts => ({
    accountId: 1,
    key: roomStateKey(1, room),
    node: 'here',
    redis: store,
    sealer,
    pipes: { addresses: [{ ip: '127.0.0.1' }], portRange: { min: 20_000, max: 29_999 } },
    relays: { addresses: [] } as unknown as Relays,
    nextVersion: () => (version += 1),
    onUnreachable: () => {},
    onSilent: () => {},
    log: logOf(room),
    sharedLog,
    timings: DEFAULT_TIMINGS.pipes,
  });
  const events = ignoredRoomEvents();
  const openRoom = async (room: string) => {
    const link = new RoomLink(partsOf(room), events, () => {});
    await link.open();
    return link;
  };
  /** Tells a room that another node has it, too. */
  const tellOfOther = (room: string, node: string) => {
    const key = roomStateKey(1, room);
    const peers = [{ peer: 'bob', kind: 'websocket', place: '', away: false }];
    const state = { format: FORMAT, version: 1, departed: false, peers, left: [], pipes: {} };
    const sealed = sealer.seal(JSON.stringify(state), `${key} ${node}`);
    listeners.get(key)!.onMessage(`${node} ${sealed}`);
  };
  return { redis, attempts, written, lines, openRoom, tellOfOther };
}

const roomNames = Array.from({ length: ROOMS }, (_, i) => `room ${i}`);

test('rooms that change or end while Redis is away: a line a second for all, and retries that slow down', async () => {
  const { redis, attempts, written, lines, openRoom } = openNode();
  const links = await Promise.all(roomNames.map(openRoom));
  for (const link of links) link.setPeer('alice', 'websocket', '', false);
  await vi.advanceTimersByTimeAsync(0);
  expect(written).toHaveLength(ROOMS);
  redis.isAway = true;
  attempts.length = 0;
  for (const [i, link] of links.entries()) {
    if (i % 2 === 0) link.setMuted('alice', true);
    else {
      link.removePeer('alice', 'left');
      void link.close();
    }
  }
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(new Set(lines.map(({ message }) => message))).toEqual(
    new Set(['room state not written; retrying']),
  );
  expect(lines.length).toBeLessThanOrEqual(MINUTE_MS / 1000 + 1);
  const logged = lines.reduce((sum, { unlogged }) => sum + 1 + unlogged, 0);
  expect(logged).toBeGreaterThan(attempts.length - ROOMS);
  // At once, after 1, 3 and 7 s, then every 5 s.
  expect(attempts.length / ROOMS).toBe(14);

  redis.isAway = false;
  written.length = 0;
  for (const link of links) link.retryNow();
  await vi.advanceTimersByTimeAsync(0);
  expect(new Set(written).size).toBe(ROOMS);
  // The next outage begins with short delays.
  redis.isAway = true;
  attempts.length = 0;
  links[0]!.setMuted('alice', false);
  await vi.advanceTimersByTimeAsync(1100);
  expect(attempts).toHaveLength(2);
  for (const link of links) link.abandon();
});

test('nothing is written again because Redis answers again, if nothing was missed', async () => {
  const { attempts, openRoom } = openNode();
  const link = await openRoom('kitchen');
  link.setPeer('alice', 'websocket', '', false);
  await vi.advanceTimersByTimeAsync(0);
  link.retryNow();
  await vi.advanceTimersByTimeAsync(MINUTE_MS);
  expect(attempts).toHaveLength(1);
});

test('pipes of many rooms to three nodes that cannot be opened: a line a second for all', async () => {
  const { lines, openRoom, tellOfOther } = openNode();
  const router = {
    openNodePipe: () => Promise.reject(new Error('the address is gone')),
  } as unknown as RoomRouter;
  const links = await Promise.all(roomNames.slice(0, 50).map(openRoom));
  for (const [i, link] of links.entries()) {
    link.setPeer('alice', 'websocket', '', false);
    link.setRouter(router);
    for (const node of ['a', 'b', 'c']) tellOfOther(roomNames[i]!, node);
  }
  await vi.advanceTimersByTimeAsync(10_000);
  const messages = lines.map(({ message }) => message);
  expect(messages).toEqual(Array(messages.length).fill('pipe to node failed; reopened'));
  expect(messages.length).toBeGreaterThan(5);
  expect(messages.length).toBeLessThanOrEqual(11);
  for (const link of links) link.abandon();
  await Promise.all(links.map((link) => link.close()));
});
