import { describe, expect, test } from 'vitest';
import { MAX_ROOMS_A_MINUTE, OTHER_ROOMS } from '../../src/usage/meter.ts';
import { minuteRecordsKey } from '../../src/store/keys.ts';
import { ReportQueue } from '../../src/usage/report-queue.ts';
import { UsageReader } from '../../src/usage/usage-reader.ts';
import { reportUsage, type UsageQuery } from '../../src/usage/report.ts';
import { ACCOUNT, collectReport, count, KEEP_DAYS, NOW_MS, usageIn } from '../support/usage.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore } = useStack();

const openUsage = async () => usageIn(await openStore(await openRedis()));
type Usage = Awaited<ReturnType<typeof openUsage>>;

const report = ({ reader }: Usage, query: UsageQuery) =>
  collectReport(reportUsage(reader, ACCOUNT, query, NOW_MS));

const GRANULARITIES = ['minute', 'hour', 'day'] as const;

/** Number of times that Redis has run a command. */
async function callsOf({ store }: Usage, command: string): Promise<number> {
  const stats = await store.run((client) => client.info('commandstats'));
  return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
}

describe('the work of Redis', () => {
  test('the sum of a month is one field, however many minutes and rooms are open', async () => {
    const opened = await openUsage();
    const { usage, monthMs } = opened;
    for (let minute = 0; minute < 60; minute += 1) {
      const rooms = Array.from({ length: 100 }, (_, room) =>
        count({ minute: `2026-11-21T07:${String(minute).padStart(2, '0')}`, room: `r${room}` }),
      );
      await usage.write(rooms);
    }
    const before = await callsOf(opened, 'hgetall');
    expect(await monthMs()).toBe(60 * 100 * 60_000);
    expect(await callsOf(opened, 'hgetall')).toBe(before);
    expect(await callsOf(opened, 'hget')).toBe(1);
  });

  test('a report reads large hashes in slices', async () => {
    const opened = await openUsage();
    const { usage, close } = opened;
    for (let minute = 10; minute < 20; minute += 1) {
      const name = `2026-11-21T07:${minute}`;
      const rooms = Array.from({ length: 1000 }, (_, room) =>
        count({ minute: name, room: `room ${room}` }),
      );
      await usage.write(rooms);
      await close(name);
    }
    const { records } = await report(opened, { from: '2026-11-21', granularity: 'minute' });
    expect(records.length).toBe(10_000);
    const byHour = await report(opened, { from: '2026-11-21', granularity: 'hour' });
    expect(byHour.records.length).toBe(1000);
    expect(await callsOf(opened, 'hscan')).toBeGreaterThanOrEqual(11);
  });

  test('the report of a busy day lets the event loop go on after every 500 records, and after every 1000 fields', async () => {
    const opened = await openUsage();
    const { store, reader } = opened;
    const fields = 20_000;
    const key = minuteRecordsKey(ACCOUNT, '2026-11-20');
    const record = (index: number) => {
      const minute = String(index % 60).padStart(2, '0');
      return [`08:${minute}|room ${index}`, '60000:0:1'] as [string, string];
    };
    await store.run((client) =>
      client.hSet(
        key,
        Array.from({ length: fields }, (_, i) => record(i)),
      ),
    );
    let loops = 0;
    let sinceLoop = 0;
    const countLoop = () => {
      loops += 1;
      sinceLoop = 0;
      counting = setImmediate(countLoop);
    };
    let counting = setImmediate(countLoop);
    let read = 0;
    let most = 0;
    const query = { from: '2026-11-20', to: '2026-11-21', granularity: 'minute' } as const;
    for await (const some of reportUsage(reader, ACCOUNT, query, NOW_MS).records) {
      read += some.length;
      sinceLoop += some.length;
      most = Math.max(most, sinceLoop);
    }
    clearImmediate(counting);
    expect(read).toBe(fields);
    expect(most).toBeLessThanOrEqual(500);
    expect(loops).toBeGreaterThanOrEqual(fields / 1000 + fields / 500);
  });

  test('the records that processes have written of a minute stay until the minute is closed', async () => {
    const { store, usage, close } = await openUsage();
    const ttlS = () =>
      store.run((client) => client.ttl(`partyline:usage:open:${ACCOUNT}:2026-11-21T08:13`));
    await usage.write([count({})]);
    expect(await ttlS()).toBe(-1);
    await close();
    expect(await ttlS()).toBeGreaterThan(0);
    await usage.write([count({ websocketMs: 70_000 })]);
    expect(await ttlS()).toBe(-1);
  });

  test('the age of the oldest minute that waits is known', async () => {
    const { usage, close } = await openUsage();
    expect(await usage.countOpen()).toEqual({ minutes: 0, oldestEndWallMs: undefined });
    await usage.write([count({ minute: '2026-11-21T08:14' }), count({})]);
    const oldestEndWallMs = Date.UTC(2026, 10, 21, 8, 14);
    expect(await usage.countOpen()).toEqual({ minutes: 2, oldestEndWallMs });
    await close();
    expect(await usage.countOpen()).toEqual({
      minutes: 1,
      oldestEndWallMs: oldestEndWallMs + 60_000,
    });
  });
});

describe('reports', () => {
  test('random writes and closings, some late and some twice: every granularity has the sum of the month', async () => {
    const opened = await openUsage();
    const { usage, close, monthMs } = opened;
    let seed = 1;
    const pick = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const totals = new Map<string, number>();
    for (let step = 0; step < 400; step += 1) {
      const minute = `2026-11-${19 + pick(3)}T0${pick(8)}:${10 + pick(5)}`;
      const [writer, room] = [`node-${pick(3)}`, `room ${pick(4)}`];
      const key = `${minute}|${writer}|${room}`;
      totals.set(key, (totals.get(key) ?? 0) + 1 + pick(9000));
      await usage.write([count({ minute, writer, room, websocketMs: totals.get(key)! })]);
      if (pick(3) === 0) await close(minute);
      if (pick(9) === 0) await close(minute);
    }
    const sumMs = [...totals.values()].reduce((sum, ms) => sum + ms, 0);
    expect(await monthMs()).toBe(sumMs);
    for (const granularity of GRANULARITIES) {
      const { total_seconds: totalS, records } = await report(opened, { granularity });
      expect(Math.round(totalS * 1000)).toBe(sumMs);
      expect(records.map(({ start }) => start)).toEqual(
        records.map(({ start }) => start).toSorted(),
      );
      expect(new Set(records.map(({ start, room }) => `${start} ${room}`)).size).toBe(
        records.length,
      );
    }
    // Edges in the middle of an hour.
    const query = { from: '2026-11-19T02:12', to: '2026-11-20T03:13' };
    const sums = await Promise.all(
      GRANULARITIES.map(async (granularity) => {
        const { total_seconds: totalS } = await report(opened, { ...query, granularity });
        return Math.round(totalS * 1000);
      }),
    );
    const inRange = [...totals].filter(
      ([key]) => key.slice(0, 16) >= query.from && key.slice(0, 16) < query.to,
    );
    const rangeMs = inRange.reduce((sum, [, ms]) => sum + ms, 0);
    expect(sums).toEqual([rangeMs, rangeMs, rangeMs]);
  });

  test('days that were recorded before hours were kept are added up from their minutes', async () => {
    const opened = await openUsage();
    const { store, usage, close } = opened;
    await store.run((client) =>
      client.hSet(`partyline:usage:records:${ACCOUNT}:2026-11-21`, '08:12|a', '30000:5:2'),
    );
    await usage.write([count({})]);
    await close();
    await usage.write([count({ websocketMs: 61_000 }), count({ room: 'b', websocketMs: 7 })]);
    const { records } = await report(opened, { granularity: 'hour' });
    expect(records).toEqual([
      {
        start: '2026-11-21T08:00:00Z',
        room: 'a',
        websocket_seconds: 91,
        webrtc_seconds: 0.005,
        peak_peers: 2,
      },
      {
        start: '2026-11-21T08:00:00Z',
        room: 'b',
        websocket_seconds: 0.007,
        webrtc_seconds: 0,
        peak_peers: 1,
      },
    ]);
  });

  test('more rooms in a minute than are recorded singly, of all processes: the rest becomes one record, again and again', async () => {
    const opened = await openUsage();
    const { usage, monthMs } = opened;
    const rooms = MAX_ROOMS_A_MINUTE + 700;
    const writeSome = (writer: string, from: number, to: number, ms: number) =>
      usage.write(
        Array.from({ length: to - from }, (_, index) =>
          count({ writer, room: `room ${from + index}`, websocketMs: ms + index }),
        ),
      );
    const close = () => usage.close({ accountId: ACCOUNT, minute: '2026-11-21T08:13' }, KEEP_DAYS);
    const check = async () => {
      for (const granularity of GRANULARITIES) {
        const { records, total_seconds: totalS } = await report(opened, { granularity });
        expect(records.length).toBeLessThanOrEqual(MAX_ROOMS_A_MINUTE + 1);
        expect(Math.round(totalS * 1000)).toBe(await monthMs());
        expect(records.some(({ room }) => room === OTHER_ROOMS)).toBe(true);
      }
    };
    await writeSome('one', 0, 1500, 1000);
    await close();
    await writeSome('other', 1500, rooms, 2000);
    await usage.write([count({ writer: 'third', room: OTHER_ROOMS, websocketMs: 5 })]);
    await check();
    await close();
    await check();
    await writeSome('one', 0, 1500, 9000);
    await check();
    await close();
    await check();
  });

  test('minutes that are closed while a report is read are in it once', async () => {
    const opened = await openUsage();
    const { store, usage, close, monthMs } = opened;
    for (const granularity of GRANULARITIES) {
      const minutes = Array.from({ length: 8 }, (_, index) => `2026-11-21T07:${10 + index}`);
      await usage.write(minutes.map((minute) => count({ minute, room: granularity })));
      let runs = 0;
      const run = async <T>(commands: (client: typeof store.client) => Promise<T>) => {
        runs += 1;
        const minute = runs % 5 === 0 ? minutes.shift() : undefined;
        if (minute) await close(minute);
        return store.run(commands);
      };
      const reader = new UsageReader({ run } as typeof store);
      const { total_seconds: totalS } = await report({ ...opened, reader }, { granularity });
      expect(minutes.length).toBeLessThan(8);
      expect(totalS * 1000).toBe(await monthMs());
    }
  });
});

test('reports of an account are read one at a time, those of another beside them; too many are refused', async () => {
  const queue = new ReportQueue(1000);
  const order: string[] = [];
  const endFirst = await queue.take(1);
  const others = [2, 3, 4].map(async (number) => {
    const end = await queue.take(1);
    order.push(`report ${number}`);
    end();
    end();
  });
  await expect(queue.take(1)).rejects.toMatchObject({ code: 'rate_limited', retryAfterMs: 1000 });
  (await queue.take(2))();
  order.push('another account');
  endFirst();
  await Promise.all(others);
  expect(order).toEqual(['another account', 'report 2', 'report 3', 'report 4']);
  (await queue.take(1))();
});
