import { type Static, Type } from 'typebox';
import { PartylineError } from '../protocol/errors.ts';
import type { Granularity, MinuteRange, UsageReader, UsageRecord } from './usage-reader.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/**
 * Time after the end of a minute from which its usage no longer grows, ms: processes write every 5 s, and again 5 s after a failed write.
 * Later counts come only from a process that could not reach Redis, that stood still, or that left them to its next start.
 */
const SETTLED_AFTER_MS = 30_000;
const MOMENT = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]00:00)?)?$/;
const ZONE = /(Z|[+-]00:00)$/;
const ACCEPTED =
  'ISO 8601 in UTC, as 2026-11-01, 2026-11-01T08:30 or 2026-11-01T08:30:00.000+00:00';

const Moment = Type.String({ description: `${ACCEPTED}, up to the year 9998` });

/** Query of a report: times are ISO 8601, UTC; by default `from` is the first of this month and `to` is now. */
export const UsageQuerySchema = Type.Object(
  {
    from: Type.Optional(Moment),
    to: Type.Optional(Moment),
    granularity: Type.Optional(Type.Enum(['minute', 'hour', 'day'])),
  },
  { additionalProperties: false },
);

/** Usage of each room in each minute, hour or day; seconds are peer-seconds. */
export const UsageReportSchema = Type.Object({
  from: Type.String(),
  to: Type.String(),
  complete_to: Type.String({
    description:
      'Records that begin before this time no longer grow, those that begin later do; if it equals "from", no record is complete yet. The next report in a series begins here: from=complete_to.',
  }),
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
type UsageReport = Static<typeof UsageReportSchema>;
export type ReportedUsage = UsageReport['records'][number];

/** A report whose records are read later, by start, some at a time. */
export type OpenReport = Pick<UsageReport, 'from' | 'to' | 'complete_to' | 'granularity'> & {
  records: AsyncGenerator<ReportedUsage[]>;
};

/** Maximum number of days that may be asked for at once. */
const MAX_DAYS = { minute: 31, hour: 366, day: 366 };
/** Latest time that may be asked for: no minute after it, rounded up, has a year of five digits, which sorts before the others. */
const LATEST_MS = Date.UTC(9999, 0, 1);

/**
 * Reports the usage of an account; the sum is that of `GET /api/me`, for the same time.
 * @throws {PartylineError} `bad_request`; reading its records throws `overloaded`
 */
export function reportUsage(
  reader: Pick<UsageReader, 'read'>,
  accountId: number,
  query: UsageQuery,
  wallMs: number,
): OpenReport {
  const { granularity = 'hour' } = query;
  const maxDays = MAX_DAYS[granularity];
  const now = new Date(wallMs);
  const thisMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
  const fromMs = query.from === undefined ? thisMonth : readMoment('from', query.from);
  const toMs = query.to === undefined ? wallMs : readMoment('to', query.to);
  if (toMs < fromMs) {
    const which = query.to === undefined ? '"from" is in the future.' : '"to" is before "from".';
    throw new PartylineError('bad_request', which);
  }
  if (toMs - fromMs > maxDays * DAY_MS) {
    const message = `With granularity "${granularity}", at most ${maxDays} days at a time.`;
    throw new PartylineError('bad_request', message);
  }
  // Whole hours cost less to read, and an unfinished hour has no further minutes.
  const range = { from: minuteFrom(fromMs), to: minuteFrom(toMs, toMs < wallMs ? 1 : 60) };
  return {
    from: new Date(fromMs).toISOString(),
    to: new Date(toMs).toISOString(),
    complete_to: new Date(
      Math.max(fromMs, completeTo(range.to, granularity, wallMs)),
    ).toISOString(),
    granularity,
    records: asReported(reader.read(accountId, range, granularity)),
  };
}

/** Peer-seconds in records. */
export const secondsIn = (records: ReportedUsage[]) =>
  records.reduce((sum, record) => sum + msOf(record), 0) / 1000;

/** Rounds to whole milliseconds, so that a long sum has no rounding error. */
const msOf = ({ websocket_seconds: websocketS, webrtc_seconds: webrtcS }: ReportedUsage) =>
  Math.round(1000 * websocketS) + Math.round(1000 * webrtcS);

/** Returns the end of the records that no longer grow, ms: that of the range, or the beginning of the first record that does. */
function completeTo(to: string, granularity: Granularity, wallMs: number): number {
  const settledMs = wallMs - SETTLED_AFTER_MS;
  const toMs = Date.parse(`${to}Z`);
  if (toMs <= settledMs) return toMs;
  const unitMs = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS }[granularity];
  return Math.floor(settledMs / unitMs) * unitMs;
}

/** Returns the first minute that begins at or after `ms`, or the first that is a multiple of `minutes`. */
const minuteFrom = (ms: number, minutes = 1): MinuteRange['from'] => {
  const unitMs = minutes * MINUTE_MS;
  return new Date(Math.ceil(ms / unitMs) * unitMs).toISOString().slice(0, 16);
};

/** Dates and moments without a zone are UTC. */
function readMoment(name: string, text: string): number {
  const isZoned = text.length === 10 || ZONE.test(text);
  const moment = MOMENT.test(text) ? Date.parse(isZoned ? text : `${text}Z`) : Number.NaN;
  // There is no 31st of February, which would be read as the 3rd of March.
  const isRealDate =
    !Number.isNaN(moment) && new Date(moment).toISOString().startsWith(text.slice(0, 10));
  if (!isRealDate)
    throw new PartylineError('bad_request', `"${name}" must be a date or time in ${ACCEPTED}.`);
  if (moment > LATEST_MS)
    throw new PartylineError('bad_request', `"${name}" is later than the year 9998.`);
  return moment;
}

async function* asReported(
  records: AsyncGenerator<UsageRecord[]>,
): AsyncGenerator<ReportedUsage[]> {
  for await (const some of records) {
    yield some.map(({ start, room, websocketMs, webrtcMs, peakPeers }) => ({
      start: `${start}:00Z`,
      room,
      websocket_seconds: websocketMs / 1000,
      webrtc_seconds: webrtcMs / 1000,
      peak_peers: peakPeers,
    }));
  }
}
