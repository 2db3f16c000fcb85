import { type Static, Type } from 'typebox';
import { PartylineError } from '../protocol/errors.ts';
import type { UsageRecord, UsageStore } from './usage-store.ts';

const DAY_MS = 86_400_000;
const MOMENT = '^\\d{4}-\\d{2}-\\d{2}(T\\d{2}:\\d{2}(:\\d{2}(\\.\\d+)?)?Z?)?$';

/** What is asked for: moments are ISO 8601, UTC; `from` the first of this month and `to` now, if they are not said. */
export const UsageQuerySchema = Type.Object(
  {
    from: Type.Optional(Type.String({ pattern: MOMENT })),
    to: Type.Optional(Type.String({ pattern: MOMENT })),
    granularity: Type.Optional(Type.Enum(['minute', 'hour', 'day'])),
  },
  { additionalProperties: false },
);

/** What was used of each room in each minute, hour or day; seconds are peer-seconds. */
export const UsageReportSchema = Type.Object({
  from: Type.String(),
  to: Type.String(),
  granularity: Type.String(),
  total_seconds: Type.Number(),
  records: Type.Array(
    Type.Object({
      start: Type.String(),
      room: Type.String(),
      websocket_seconds: Type.Number(),
      webrtc_seconds: Type.Number(),
      peak_peers: Type.Integer(),
    }),
  ),
});

export type UsageQuery = Static<typeof UsageQuerySchema>;
export type UsageReport = Static<typeof UsageReportSchema>;

/** How much of the name of a minute (`2026-11-21T08:13`) names the time that it is counted under, and the rest of that. */
const GRANULARITIES = {
  minute: { digits: 16, rest: ':00Z', maxDays: 31 },
  hour: { digits: 13, rest: ':00:00Z', maxDays: 366 },
  day: { digits: 10, rest: 'T00:00:00Z', maxDays: 366 },
};

/**
 * Reports what an account has used; the sum is that of `GET /api/me`, for the same time.
 * @throws {PartylineError} `bad_request`, `overloaded`
 */
export async function reportUsage(
  store: UsageStore,
  accountId: number,
  query: UsageQuery,
  now: Date,
): Promise<UsageReport> {
  const { granularity = 'hour' } = query;
  const { maxDays } = GRANULARITIES[granularity];
  const thisMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
  const fromMs = query.from === undefined ? thisMonth : readMoment('from', query.from);
  const toMs = query.to === undefined ? now.getTime() : readMoment('to', query.to);
  if (toMs < fromMs) {
    const which = query.to === undefined ? '"from" is in the future.' : '"to" is before "from".';
    throw new PartylineError('bad_request', which);
  }
  if (toMs - fromMs > maxDays * DAY_MS) {
    const message = `With granularity "${granularity}", at most ${maxDays} days at a time.`;
    throw new PartylineError('bad_request', message);
  }
  const records = await store.readRecords(accountId, fromMs, toMs);
  const totalMs = records.reduce(
    (sum, { websocketMs, webrtcMs }) => sum + websocketMs + webrtcMs,
    0,
  );
  return {
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    granularity,
    total_seconds: totalMs / 1000,
    records: groupRecords(records, granularity),
  };
}

/** Dates and moments without a zone are UTC. */
function readMoment(name: string, text: string): number {
  const zoned = text.length === 10 || text.endsWith('Z') ? text : `${text}Z`;
  const moment = Date.parse(zoned);
  // There is no 31st of February, which would be read as the 3rd of March.
  const isThere =
    !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(text.slice(0, 10));
  if (!isThere) throw new PartylineError('bad_request', `"${name}" is no moment that there is.`);
  return moment;
}

function groupRecords(
  records: UsageRecord[],
  granularity: keyof typeof GRANULARITIES,
): UsageReport['records'] {
  const { digits, rest } = GRANULARITIES[granularity];
  const groups = new Map<string, UsageReport['records'][number]>();
  const sums = new Map<string, { websocketMs: number; webrtcMs: number }>();
  for (const { minute, room, websocketMs, webrtcMs, peakPeers } of records) {
    const start = minute.slice(0, digits) + rest;
    const key = `${start}|${room}`;
    const sum = sums.get(key) ?? { websocketMs: 0, webrtcMs: 0 };
    sum.websocketMs += websocketMs;
    sum.webrtcMs += webrtcMs;
    sums.set(key, sum);
    groups.set(key, {
      start,
      room,
      websocket_seconds: sum.websocketMs / 1000,
      webrtc_seconds: sum.webrtcMs / 1000,
      peak_peers: Math.max(peakPeers, groups.get(key)?.peak_peers ?? 0),
    });
  }
  return [...groups.values()];
}
