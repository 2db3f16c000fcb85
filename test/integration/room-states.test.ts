import type { FastifyBaseLogger } from 'fastify';
import { expect, test, vi } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Cluster } from '../../src/cluster/cluster.ts';
import { parseRoomState } from '../../src/cluster/room-state.ts';
import { roomStateKey } from '../../src/store/keys.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { watchSlowness } from '../support/slowness.ts';
import { useStack } from '../support/use-stack.ts';
import { ignoredRoomEvents } from '../support/room-events.ts';

const { openRedis, openStore, cleanUps } = useStack();

const ROOMS = Array.from({ length: 40 }, (_, i) => `room ${i}`);
const OUTAGE_MS = 4000;
/** Time after its return within which Redis has the state of every room, ms. */
const WRITTEN_WITHIN_MS = 1000;

/** Retries alone come at most 3.6 s after the beginning of the outage, and then more than 3 s after its end. */
const timings = timingsWith({
  pipes: { retryAfterMs: 1000, longestRetryMs: 60_000 },
  nodes: { beatEveryMs: 100, deadAfterMs: 60_000 },
});

const events = ignoredRoomEvents();

test.each(['hangs', 'refuses writes', 'restarts'] as const)(
  'a Redis that %s: a line a second for all rooms, whose states it has within a second of its return',
  async (fault) => {
    const slowness = await watchSlowness();
    const redis = await openRedis();
    const store = await openStore(redis, { commandTimeoutMs: 200, longestReconnectMs: 200 });
    const warn = vi.fn<(fields: object, message: string) => void>();
    const log = { ...silentLog, warn } as unknown as FastifyBaseLogger;
    const settings = {
      clusterKey: 'a key that all nodes know',
      pipes: { addresses: [{ ip: '127.0.0.1' }], portRange: { min: 20_000, max: 29_999 } },
    };
    const cluster = await Cluster.open(store, settings, log, timings);
    cleanUps.push(() => cluster.close(0));
    const links = await Promise.all(ROOMS.map((room) => cluster.openRoom(1, room, events, log)));
    for (const link of links) link.setPeer('alice', 'websocket', '', false);

    const observer = await openStore(redis);
    const isMuted = async (room: string) => {
      const key = roomStateKey(1, room);
      const sealed = await observer.run((client) => client.hGet(key, cluster.node));
      if (!sealed) return undefined;
      const state = parseRoomState(cluster.sealer.unseal(sealed, `${key} ${cluster.node}`));
      return state?.peers[0]?.muted;
    };
    const areAll = async (expected: (room: number) => boolean | undefined) => {
      const found = await Promise.all(ROOMS.map(isMuted)).catch(() => []);
      return found.length > 0 && found.every((muted, i) => muted === expected(i));
    };
    const setReplicas = (count: string) =>
      observer.run((client) => client.configSet('min-replicas-to-write', count));
    await eventually('all are written', () => areAll(() => false));

    if (fault === 'hangs') redis.hang();
    else if (fault === 'restarts') await redis.kill();
    else await setReplicas('1');
    const startMs = performance.now();
    for (const [i, link] of links.entries()) {
      if (i % 2 === 0) link.setMuted('alice', true);
      else {
        link.removePeer('alice', 'left');
        void link.close();
      }
    }
    await new Promise((resolve) => setTimeout(resolve, OUTAGE_MS));
    if (fault === 'hangs') redis.goOn();
    else if (fault === 'restarts') await redis.restart();
    else await setReplicas('0');
    const backMs = performance.now();
    await eventually('all are written again', () =>
      areAll((i) => (i % 2 === 0 ? true : undefined)),
    );
    const tookMs = performance.now() - backMs;
    expect(tookMs).toBeLessThan(WRITTEN_WITHIN_MS * (await slowness()));

    const lines = warn.mock.calls.map(([, message]) => message);
    const unwritten = lines.filter((line) => line === 'room state not written; retrying');
    expect(unwritten.length).toBeGreaterThan(0);
    expect(unwritten.length).toBeLessThanOrEqual((performance.now() - startMs) / 1000 + 1);
    expect(lines.length).toBeLessThan(2 * unwritten.length + 5);
  },
);
