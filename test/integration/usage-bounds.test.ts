import { randomUUID } from 'node:crypto';
import { describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { AccountBudgets } from '../../src/accounts/account-budgets.ts';
import { PLANS } from '../../src/accounts/plans.ts';
import { MAX_SETTINGS_BYTES } from '../../src/session/audio-settings.ts';
import {
  hourRecordsKey,
  leaseSettingsKey,
  minuteKey,
  minuteRecordsKey,
  resumeKey,
  USAGE_PREFIX,
  webhookOutboxKey,
  webhookRoomsKey,
} from '../../src/store/keys.ts';
import type { Redis } from '../../src/store/redis.ts';
import { CcuLeases } from '../../src/usage/ccu-leases.ts';
import { MAX_ROOMS_A_MINUTE, OTHER_ROOMS } from '../../src/usage/meter.ts';
import { reportUsage } from '../../src/usage/report.ts';
import { roomCountRate } from '../../src/usage/room-counts.ts';
import type { TokenBucket } from '../../src/token-bucket.ts';
import { left, type WebhookEvent } from '../../src/webhooks/events.ts';
import { WebhookStore } from '../../src/webhooks/webhook-store.ts';
import { silentLog } from '../support/gateway.ts';
import { memoryRow } from '../support/security-page.ts';
import { ACCOUNT, collectReport, count, NOW_MS, usageIn } from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, openGateway, createAccount, enter } = useStack();

test.each([
  ['hours', { hours: 50, minutes: 1e6 }],
  ['minutes', { hours: 1e6, minutes: 50 }],
])(
  'rooms without end: records of %s are bounded, and sums exact, with late counts, too',
  async (_name, bounds) => {
    const opened = usageIn(await openStore(await openRedis()), bounds);
    const { store, usage, close, monthMs } = opened;
    const minutes = Array.from({ length: 40 }, (_, i) => `2026-11-21T0${7 + (i % 2)}:${10 + i}`);
    const writeRooms = (minute: string, writer: string) =>
      usage.write(
        Array.from({ length: 9 }, (_, room) =>
          count({ minute, writer, room: `${minute} ${room}` }),
        ),
      );
    const check = async () => {
      for (const granularity of ['minute', 'hour', 'day'] as const) {
        const { records, total_seconds: totalS } = await collectReport(
          reportUsage(opened.reader, ACCOUNT, { granularity }, NOW_MS),
        );
        expect(totalS * 1000).toBe(await monthMs());
        expect(records.some(({ room }) => room === OTHER_ROOMS)).toBe(true);
      }
    };
    for (const minute of minutes) {
      await writeRooms(minute, 'one');
      await close(minute);
      // A room that has a record of its own in this hour.
      await usage.write([count({ minute, room: `${minutes[0]} 0` })]);
      await close(minute);
    }
    await check();
    for (const minute of minutes) await writeRooms(minute, 'late');
    await check();
    for (const minute of minutes) await close(minute);
    await check();
    expect(await monthMs()).toBe(40 * (2 * 9 + 1) * 60_000);
    const fieldsOf = (hash: string) =>
      store.run((client) => client.hLen(`${USAGE_PREFIX}${hash}:${ACCOUNT}:2026-11-21`));
    expect(await fieldsOf('hours')).toBeLessThanOrEqual(50 + 9 + 3);
    expect(await fieldsOf('records')).toBeLessThanOrEqual(50 + 9 + 40 * 2);
  },
);

test('a minute with too many rooms, closed again once its day is full, counts each room once', async () => {
  // Full as soon as the minute is closed.
  const bounds = { hours: MAX_ROOMS_A_MINUTE, minutes: 1e6 };
  const { usage, reader, close, monthMs } = usageIn(await openStore(await openRedis()), bounds);
  const minute = '2026-11-21T08:13';
  const rooms = MAX_ROOMS_A_MINUTE + 1;
  const check = async (expectedMs: number) => {
    for (const granularity of ['minute', 'hour', 'day'] as const) {
      const { records, total_seconds: totalS } = await collectReport(
        reportUsage(reader, ACCOUNT, { granularity }, NOW_MS),
      );
      expect(totalS * 1000).toBe(expectedMs);
      expect(records.length).toBe(MAX_ROOMS_A_MINUTE + 1);
    }
  };
  await usage.write(
    Array.from({ length: rooms }, (_, room) =>
      count({ minute, room: `${room}`, websocketMs: room === 0 ? 1000 : 2000 }),
    ),
  );
  await close(minute);
  const closedMs = await monthMs();
  expect(closedMs).toBe((2 * rooms - 1) * 1000);
  await check(closedMs);
  await usage.write([count({ minute, writer: 'late', room: '1', websocketMs: 7000 })]);
  await check(closedMs + 7000);
  await close(minute);
  expect(await monthMs()).toBe(closedMs + 7000);
  await check(closedMs + 7000);
});

test('a free account whose budget of rooms is used up has one record for the rest', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url }, { usage: { writeEveryMs: 100 } });
  const { apiKey } = await createAccount(redis, 'free');
  const budgets = vi.spyOn(AccountBudgets.prototype, 'of');
  const client = await enter({ url: gateway.url, apiKey }, 'ada', { room: 'a' });
  const { burst } = roomCountRate(PLANS.free.maxCcu);
  // One room has been taken. The rest would take a client half a minute. No other budget of an
  // account has this burst.
  const buckets = budgets.mock.results.map(({ value }) => value as TokenBucket);
  budgets.mockRestore();
  const [ofRooms, ...others] = new Set(buckets.filter((each) => each.balance(Infinity) === burst));
  expect(others).toEqual([]);
  ofRooms!.spend(2 * burst, performance.now());
  await client.ask({ type: 'join', room: 'b' }, 'joined');
  await client.ask({ type: 'join', room: 'c' }, 'joined');
  const namesOf = async () => {
    const headers = { authorization: `Bearer ${apiKey}` };
    const response = await fetch(`${gateway.url}/api/usage?granularity=day`, { headers });
    const { records } = (await response.json()) as { records: { room: string }[] };
    return records.map(({ room }) => room).toSorted();
  };
  await expect.poll(namesOf).toEqual([OTHER_ROOMS, 'a']);
});

describe('"In Redis" of the section "Memory of Redis" in SECURITY.md', () => {
  const digit = (value: number) => String.fromCodePoint(0x1f400 + value);
  /** Returns one of 2500 names that are as long as names may be. */
  const nameOf = (n: number) =>
    `${digit(n % 50)}${digit(Math.trunc(n / 50))}${digit(0).repeat(126)}`;
  const namesOf = (number: number) => Array.from({ length: number }, (_, n) => nameOf(n));
  const bytesOf = async (store: Redis, key: string) => {
    const bytes = await store.run((client) => client.memoryUsage(key, { SAMPLES: 0 }));
    expect(bytes).toBeGreaterThan(512);
    return bytes ?? Infinity;
  };

  test('usage of rooms with the longest names takes no more', async () => {
    const { store, usage, close } = usageIn(await openStore(await openRedis()));
    const minute = '2026-11-21T08:13';
    const ms = 500 * 60_000;
    const time = { websocketMs: ms, webrtcMs: ms, peakPeers: 500 };
    const rooms = namesOf(MAX_ROOMS_A_MINUTE);
    const writer = randomUUID();
    await usage.write(rooms.map((room) => count({ minute, writer, room, ...time })));
    const bytesOfEach = async (key: string) => {
      const bytes = await bytesOf(store, key);
      expect(bytes).toBeGreaterThan(rooms.length * 512);
      return bytes / rooms.length;
    };
    const inRedis = (data: string) => memoryRow(data).inRedis;
    expect(await bytesOfEach(minuteKey(ACCOUNT, minute))).toBeLessThan(inRedis('count of a room'));
    await close(minute);
    const [minutes, hours] = [minuteRecordsKey, hourRecordsKey].map((keyOf) =>
      keyOf(ACCOUNT, '2026-11-21'),
    );
    expect(await bytesOfEach(minutes!)).toBeLessThan(inRedis('record of a room in a minute'));
    expect(await bytesOfEach(hours!)).toBeLessThan(inRedis('record of a room in an hour'));
  });

  test('a webhook event that waits alone in its room takes no more, with its place among the rooms', async () => {
    const store = await openStore(await openRedis());
    const webhooks = new WebhookStore(store, 10_000);
    await webhooks.register('node');
    const accountId = 2 ** 31 - 1;
    const rooms = namesOf(1000);
    const { text, inRedis } = memoryRow('webhook event');
    const peer = { peer: nameOf(0), kind: 'websocket' } as const;
    const changes = rooms.map((room, n) => {
      const change = left({ accountId, room, ...peer }, 'unsupported_media_type', NOW_MS);
      const { peerEvent: event } = change as { peerEvent: WebhookEvent };
      expect(Buffer.byteLength(JSON.stringify(event))).toBe(text);
      // An event that needs no peer in the room.
      const once = { op: 'once', key: `${n}`, keptUntilMs: Date.now() + 60_000 } as const;
      return { number: 0, change: { ...once, accountId, room, event } };
    });
    expect(await webhooks.tell('node', changes, 0)).toBe(true);
    const [outbox, places] = [
      webhookOutboxKey(accountId, rooms.at(-1)!),
      webhookRoomsKey(accountId),
    ];
    const ofOutbox = await bytesOf(store, outbox);
    const ofPlace = (await bytesOf(store, places)) / rooms.length;
    expect(ofOutbox).toBeGreaterThan(text);
    expect(ofOutbox + ofPlace).toBeLessThan(inRedis);
  });

  test('session and settings of a peer take no more, connected or lost', async () => {
    const store = await openStore(await openRedis());
    const { leases: timings } = DEFAULT_TIMINGS;
    const leases = new CcuLeases(store, silentLog, () => {}, timings, 0);
    const peers = namesOf(50);
    const session = { sessionId: randomUUID(), settings: 'x'.repeat(MAX_SETTINGS_BYTES) };
    const holders = peers.map((peer) => ({ accountId: ACCOUNT, peer, connectionId: randomUUID() }));
    for (const holder of holders) await leases.admit(holder, peers.length, false, session);
    const { text, inRedis } = memoryRow('session and settings');
    const ofConnected = (await bytesOf(store, leaseSettingsKey(ACCOUNT))) / peers.length;
    await leases.release(holders[0]!, 15_000);
    const ofLost = await bytesOf(store, resumeKey(ACCOUNT, peers[0]!));
    for (const bytes of [ofConnected, ofLost]) {
      expect(bytes).toBeGreaterThan(text);
      expect(bytes).toBeLessThan(inRedis);
    }
    await leases.close();
  });
});
