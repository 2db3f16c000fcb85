import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { reportUsage } from '../../../src/usage/report.ts';
import { UsageReader } from '../../../src/usage/usage-reader.ts';
import type { Redis } from '../../../src/store/redis.ts';
import { collectReport } from '../../support/usage.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 8, 30);
/** Time in which a report without records must have been read, ms. */
const LIMIT_MS = 5000;

/** Reader of an account that has used nothing, which counts the days that it reads. */
function emptyReader() {
  const days = new Set<string>();
  const empty = {
    sMembers: () => Promise.resolve([]),
    hExists: (key: string) => {
      days.add(key.slice(-10));
      return Promise.resolve(1);
    },
    hScan: () => Promise.resolve({ cursor: '0', entries: [] }),
  };
  const run = (commands: (client: typeof empty) => Promise<unknown>) => commands(empty);
  return { days, reader: new UsageReader({ run } as unknown as Redis) };
}

test.each([
  { from: '9999-12-31', to: '9999-12-31' },
  { from: '9998-12-31', to: '9999-12-31T23:59:59.999Z' },
  { from: '9999-12-31' },
  { to: '9999-01-01T00:00:00.001Z' },
])('reportUsage() for %o is refused, because minutes are compared as text', (query) => {
  const { reader } = emptyReader();
  expect(() => reportUsage(reader, 1, query, NOW_MS)).toThrow(/is later than the year 9998\.$/);
});

test.each([
  '2026-11-01T00:00:00+00:00',
  '2026-11-01T00:00:00.000000+00:00',
  '2026-11-01T00:00-00:00',
  '2026-11-01T00:00:00Z',
  '2026-11-01T00:00',
  '2026-11-01',
])('reportUsage() takes the time %s', (from) => {
  const { reader } = emptyReader();
  expect(reportUsage(reader, 1, { from }, NOW_MS)).toMatchObject({
    from: '2026-11-01T00:00:00.000Z',
  });
});

test.each([
  '',
  'yesterday',
  '2026-02-31',
  '2026-11-01Z',
  '2026-11-01T00:00:00+01:00',
  '2026-11-01T00:00:00 00:00',
  '2026-11-01 00:00',
  '+002026-11-01',
])('reportUsage() refuses the time "%s", and says what is accepted', (from) => {
  const { reader } = emptyReader();
  const report = () => reportUsage(reader, 1, { from }, NOW_MS);
  expect(report).toThrow(/^"from" must be a date or time in ISO 8601 in UTC, as /);
});

test('reportUsage() for the last day of the year 9998 reads that day', async () => {
  const { reader, days } = emptyReader();
  const query = { from: '9998-12-31', to: '9999-01-01' };
  expect(await collectReport(reportUsage(reader, 1, query, NOW_MS))).toMatchObject({ records: [] });
  expect([...days]).toEqual(['9998-12-31']);
});

/** Reader of an account with one peer, in a room from 12:00 to 13:10. */
function readerOfStay(wallMs: () => number) {
  const startMs = Date.UTC(2026, 10, 21, 12);
  const minutes = () =>
    Array.from({ length: 70 }, (_, minute) => {
      const minuteMs = startMs + minute * 60_000;
      const usedMs = Math.max(0, Math.min(60_000, wallMs() - minuteMs));
      const field = `${new Date(minuteMs).toISOString().slice(11, 16)}|a`;
      return { field, value: `${usedMs}:0:1` };
    });
  const client = {
    sMembers: () => Promise.resolve([]),
    hExists: () => Promise.resolve(0),
    hScan: () => Promise.resolve({ cursor: '0', entries: minutes() }),
  };
  const run = (commands: (of: typeof client) => Promise<unknown>) => commands(client);
  return new UsageReader({ run } as unknown as Redis);
}

test.each(['minute', 'hour', 'day'] as const)(
  'reports by %s, each from where the one before was complete, add up to the month',
  async (granularity) => {
    let wallMs = 0;
    const reader = readerOfStay(() => wallMs);
    let from = '2026-11-21';
    let sumS = 0;
    const moments = ['12:00:10', '12:01:29.999', '12:01:30', '12:31:07', '13:00:12', '13:45'];
    for (const moment of [...moments.map((time) => `2026-11-21T${time}Z`), '2026-11-22T00:01Z']) {
      wallMs = Date.parse(moment);
      const report = await collectReport(reportUsage(reader, 1, { from, granularity }, wallMs));
      const { complete_to: completeTo, records } = report;
      for (const { start, websocket_seconds: seconds } of records) {
        if (Date.parse(start) < Date.parse(completeTo)) sumS += seconds;
      }
      from = completeTo;
    }
    expect(sumS).toBe(70 * 60);
    expect(from).toBe('2026-11-22T00:00:00.000Z');
  },
);

test.each([
  // The minute before ended less than 30 s ago.
  { granularity: 'minute', complete: '2026-11-21T08:29:00.000Z' },
  { granularity: 'hour', complete: '2026-11-21T08:00:00.000Z' },
  { granularity: 'day', complete: '2026-11-21T00:00:00.000Z' },
  // Nothing is complete, and the next report must not begin in the future.
  { from: '2026-11-21T08:29:40', granularity: 'minute', complete: '2026-11-21T08:29:40.000Z' },
  { from: '2026-11-21T08:10', granularity: 'hour', complete: '2026-11-21T08:10:00.000Z' },
  // A period that has passed is complete, with the minute in which it ends.
  { to: '2026-11-20T10:20:30', granularity: 'hour', complete: '2026-11-20T10:21:00.000Z' },
] as const)('the report for %o says to what time it is complete', ({ complete, ...query }) => {
  const { reader } = emptyReader();
  expect(reportUsage(reader, 1, query, NOW_MS)).toMatchObject({ complete_to: complete });
});

test('UsageReader.read() ends for a range at the end of the year 9999', () => {
  // In a process of its own, which can be ended if the reader never returns.
  const program = `
    import { UsageReader } from './src/usage/usage-reader.ts';
    const reader = new UsageReader({ run: async () => { throw new Error('read'); } });
    for (const from of ['9999-12-31T00:00', '9999-12-31T23:59']) {
      await reader.read(1, { from, to: '9999-12-31T23:59' }, 'day').next().catch(() => {});
    }`;
  const child = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    timeout: LIMIT_MS,
    encoding: 'utf8',
  });
  expect(child).toMatchObject({ status: 0, stderr: '' });
});
