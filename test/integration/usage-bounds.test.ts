import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { hourRecordsKey, minuteKey, minuteRecordsKey, USAGE_PREFIX } from '../../src/store/keys.ts';
import { MAX_ROOMS_A_MINUTE, OTHER_ROOMS } from '../../src/usage/meter.ts';
import { collectReport, reportUsage } from '../../src/usage/report.ts';
import { ACCOUNT, count, NOW_MS, usageIn } from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore } = useStack();

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

test('usage of rooms with the longest names takes no more of Redis than SECURITY.md says', async () => {
  const { store, usage, close } = usageIn(await openStore(await openRedis()));
  const minute = '2026-11-21T08:13';
  const digit = (value: number) => String.fromCodePoint(0x1f400 + value);
  const nameOf = (n: number) =>
    `${digit(n % 50)}${digit(Math.trunc(n / 50))}${digit(0).repeat(126)}`;
  const ms = 500 * 60_000;
  const time = { websocketMs: ms, webrtcMs: ms, peakPeers: 500 };
  const rooms = Array.from({ length: MAX_ROOMS_A_MINUTE }, (_, n) => nameOf(n));
  const writer = randomUUID();
  await usage.write(rooms.map((room) => count({ minute, writer, room, ...time })));
  const bytesOfEach = async (key: string) => {
    const bytes = await store.run((client) => client.memoryUsage(key, { SAMPLES: 0 }));
    expect(bytes).toBeGreaterThan(rooms.length * 512);
    return (bytes ?? Infinity) / rooms.length;
  };
  // "In Redis" of the section "Memory of Redis".
  const most = 750;
  expect(await bytesOfEach(minuteKey(ACCOUNT, minute))).toBeLessThan(most);
  await close(minute);
  expect(await bytesOfEach(minuteRecordsKey(ACCOUNT, '2026-11-21'))).toBeLessThan(most);
  expect(await bytesOfEach(hourRecordsKey(ACCOUNT, '2026-11-21'))).toBeLessThan(most);
});
