import { expect, test, vi } from 'vitest';
import { timingsWith } from '../../../config/timings.ts';
import type { Redis } from '../../../src/store/redis.ts';
import { LastUsage } from '../../../src/usage/last-usage.ts';
import { Meter, type MinuteCount } from '../../../src/usage/meter.ts';
import { UsageReporter } from '../../../src/usage/usage-reporter.ts';
import { UsageStore } from '../../../src/usage/usage-store.ts';
import { silentLog } from '../../support/gateway.ts';
import { count, LONGEST_STEP_MS, NOW_MS } from '../../support/usage.ts';

const MINUTE_MS = 60_000;
const { usage: timings } = timingsWith({ usage: { lastWriteMs: 1, retryLastMs: 1 } });

/** A Redis that takes counts, unless the command at an index fails or it refuses all; and the number of counts in each command. */
function fakeRedis({ failsAt }: { failsAt?: number } = {}) {
  const sizes: number[] = [];
  /** Writers and rooms of the counts. */
  const written: string[] = [];
  let isRefusing = false;
  const client = {
    writeUsage: ({ arguments: [text] }: { arguments: [string] }) => {
      const minutes = JSON.parse(text) as [number, string, number, string[]][];
      written.push(...minutes.flatMap(([, , , fields]) => fields.filter((_, at) => at % 2 === 0)));
      sizes.push(minutes.reduce((sum, [, , , fields]) => sum + fields.length / 2, 0));
      if (sizes.length - 1 === failsAt) return Promise.reject(new Error('took too long'));
      if (isRefusing) return Promise.reject(new Error('READONLY'));
      return Promise.resolve();
    },
    hGet: () => Promise.resolve('0'),
  };
  const redis = {
    isReady: true,
    run: (commands: (of: typeof client) => Promise<unknown>) => commands(client),
  };
  const refuse = (refuses: boolean) => {
    isRefusing = refuses;
  };
  return { sizes, written, redis, refuse, store: new UsageStore(redis as unknown as Redis) };
}

const counts = (length: number): MinuteCount[] =>
  Array.from({ length }, (_, index) => count({ room: `room ${index}` }));

function openReporter(store: UsageStore) {
  let clockMs = NOW_MS;
  const clock = { wallMs: () => clockMs, monotonicMs: () => clockMs };
  const meter = new Meter(clock, LONGEST_STEP_MS);
  const last = new LastUsage(store, '/nowhere', silentLog, timings);
  /** Accounts whose total was reported. */
  const totals: number[] = [];
  const onTotal = (accountId: number) => totals.push(accountId);
  const reporter = new UsageReporter({ meter, store, last, clock }, silentLog, onTotal, timings);
  const pass = (ms: number) => {
    clockMs += ms;
  };
  return { meter, reporter, pass, totals };
}

test('UsageStore.write() of 12,000 counts takes three commands, each acknowledged', async () => {
  const { store, sizes } = fakeRedis();
  const written: number[] = [];
  await store.write(counts(12_000), (part) => written.push(part.length));
  expect(sizes).toEqual([5000, 5000, 2000]);
  expect(written).toEqual(sizes);
});

test('UsageStore.write() stops at the first command that fails', async () => {
  const { store, sizes } = fakeRedis({ failsAt: 1 });
  const onWritten = vi.fn<(part: MinuteCount[]) => void>();
  await expect(store.write(counts(12_000), onWritten)).rejects.toThrow('took too long');
  expect(sizes).toEqual([5000, 5000]);
  expect(onWritten).toHaveBeenCalledOnce();
});

test('UsageReporter.report() after a failed command writes only what was not acknowledged', async () => {
  const { store, sizes } = fakeRedis({ failsAt: 1 });
  const { meter, reporter, pass } = openReporter(store);
  for (let minute = 0; minute < 4; minute += 1) {
    const leaves = Array.from({ length: 2000 }, (_, room) =>
      meter.enter(1, `room ${room}`, 'websocket'),
    );
    pass(1000);
    for (const leave of leaves) leave();
    pass(MINUTE_MS);
  }
  await reporter.report();
  expect(sizes).toEqual([5000, 3000]);
  await reporter.report();
  expect(sizes).toEqual([5000, 3000, 3000]);
  await reporter.close();
  expect(sizes).toHaveLength(3);
});

test('UsageReporter.report() reports the total of accounts with peers, and of those whose peers have left since the last report', async () => {
  const { store } = fakeRedis();
  const { meter, reporter, pass, totals } = openReporter(store);
  meter.enter(1, 'a', 'websocket');
  const leave = meter.enter(2, 'a', 'websocket');
  pass(3000);
  leave();
  await reporter.report();
  expect(new Set(totals)).toEqual(new Set([1, 2]));
  totals.length = 0;
  pass(5000);
  await reporter.report();
  expect(totals).toEqual([1]);
  await reporter.close();
});

test('UsageReporter.report() while Redis is disconnected puts nothing together, and loses no time', async () => {
  const { store, redis, sizes } = fakeRedis();
  const { meter, reporter, pass } = openReporter(store);
  const take = vi.spyOn(meter, 'take');
  meter.enter(1, 'a', 'websocket');
  redis.isReady = false;
  for (let report = 0; report < 10; report += 1) {
    pass(30_000);
    await reporter.report();
  }
  expect(take).not.toHaveBeenCalled();
  expect(sizes).toEqual([]);
  redis.isReady = true;
  const totalMs = meter.take().reduce((sum, { websocketMs }) => sum + websocketMs, 0);
  expect(totalMs).toBe(300_000);
  await reporter.close();
});

test('UsageReporter.report() during a write that hangs loses no time', async () => {
  const { store } = fakeRedis();
  const { meter, reporter, pass } = openReporter(store);
  const write = Promise.withResolvers<void>();
  vi.spyOn(store, 'write').mockReturnValue(write.promise);
  meter.enter(1, 'a', 'websocket');
  const reports: Promise<void>[] = [];
  for (let report = 0; report < 10; report += 1) {
    pass(30_000);
    reports.push(reporter.report());
  }
  const totalMs = meter.take().reduce((sum, { websocketMs }) => sum + websocketMs, 0);
  expect(totalMs).toBe(300_000);
  write.resolve();
  await Promise.all(reports);
  await reporter.close();
});

test('UsageReporter.report() to a Redis that refuses writes puts one part of the backlog together, and all when it takes that', async () => {
  const { store, sizes, refuse } = fakeRedis();
  const { meter, reporter, pass } = openReporter(store);
  refuse(true);
  for (let minute = 0; minute < 6; minute += 1) {
    const leaves = Array.from({ length: 2000 }, (_, room) =>
      meter.enter(1, `room ${room}`, 'websocket'),
    );
    pass(1000);
    for (const leave of leaves) leave();
    pass(MINUTE_MS);
  }
  const take = vi.spyOn(meter, 'take');
  for (let report = 0; report < 4; report += 1) await reporter.report();
  const taken = take.mock.results.map(({ value }) => (value as MinuteCount[]).length);
  expect(taken).toEqual([12_000, 5000, 5000, 5000]);
  refuse(false);
  await reporter.report();
  expect(sizes.slice(4)).toEqual([5000, 5000, 2000]);
  await reporter.close();
  expect(sizes).toHaveLength(7);
});

test.each(['report', 'close'] as const)(
  'UsageReporter.%s() after two days without Redis gives up the oldest counts, which the log says, and writes the others',
  async (call) => {
    const { store, written } = fakeRedis();
    const { meter, reporter, pass } = openReporter(store);
    const error = vi.spyOn(silentLog, 'error');
    const leave = meter.enter(1, 'old', 'websocket');
    pass(3000);
    leave();
    pass(47 * 60 * MINUTE_MS);
    meter.enter(1, 'new', 'websocket');
    pass(1000);
    await reporter[call]();
    expect(written.map((field) => field.split('|')[1])).toEqual(['new']);
    expect(error.mock.calls).toEqual([[{ peerSeconds: 3 }, 'usage lost: older than 47 hours']]);
    error.mockClear();
    await reporter.close();
    expect(error).not.toHaveBeenCalled();
    error.mockRestore();
  },
);
