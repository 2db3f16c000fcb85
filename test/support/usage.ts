import type { MAX_RECORDS_A_DAY, MinuteCount } from '../../src/usage/meter.ts';
import { type OpenReport, type ReportedUsage, secondsIn } from '../../src/usage/report.ts';
import { UsageReader, type UsageRecord } from '../../src/usage/usage-reader.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import type { Redis } from '../../src/store/redis.ts';

/** The account of tests of usage, and a time in the minutes that they write. */
export const ACCOUNT = 7;
export const NOW_MS = Date.UTC(2026, 10, 21, 8, 30);
export const KEEP_DAYS = 1;
/** Longest step of time that meters count, ms: tests let more pass at once than a gateway. */
export const LONGEST_STEP_MS = 45_000;

/** Makes the count of a process: a peer of the account, for a minute, unless said otherwise. */
export const count = (of: Partial<MinuteCount>): MinuteCount => ({
  writer: 'node-1',
  accountId: ACCOUNT,
  minute: '2026-11-21T08:13',
  room: 'a',
  websocketMs: 60_000,
  webrtcMs: 0,
  peakPeers: 1,
  ...of,
});

/** Usage of the account in a store. */
export function usageIn(store: Redis, maxRecords?: typeof MAX_RECORDS_A_DAY) {
  const usage = new UsageStore(store, maxRecords);
  const reader = new UsageReader(store, maxRecords);
  const readRecords = async (from = '2026-11-20T08:30', to = '2026-11-21T08:30') => {
    const records: UsageRecord[] = [];
    for await (const some of reader.read(ACCOUNT, { from, to }, 'minute')) records.push(...some);
    return records;
  };
  const close = (minute = '2026-11-21T08:13') =>
    usage.close({ accountId: ACCOUNT, minute }, KEEP_DAYS);
  const monthMs = () => usage.readMonthMs(ACCOUNT, NOW_MS);
  return { store, usage, reader, readRecords, close, monthMs };
}

/** Reads all of a report. @throws {PartylineError} `overloaded` */
export async function collectReport({ records, ...head }: OpenReport) {
  const all: ReportedUsage[] = [];
  for await (const some of records) all.push(...some);
  return { ...head, total_seconds: secondsIn(all), records: all };
}
