import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Redis } from '../store/redis.ts';
import { hourRecordsKey, minuteRecordsKey, openMinutesKey, USAGE_PREFIX } from '../store/keys.ts';
import { MAX_RECORDS_A_DAY, OTHER_ROOMS } from './meter.ts';
import { limitsOf } from './usage-store.ts';

const DAY_MS = 86_400_000;
/** Number of fields that are read from Redis at once, and of records that are handled in one turn of the event loop. */
const FIELDS_AT_ONCE = 1000;
const RECORDS_AT_ONCE = 500;
/** Maximum number of rooms of one minute, hour or day that are sorted by name; more come in no order. */
const MAX_SORTED = 5000;
/**
 * Number of times that a day is read again because a minute of it was closed meanwhile; at most one minute is
 * wrong after that.
 */
const MAX_READS = 5;

/** Usage of a room in a minute, an hour or a day, over all processes. */
export type UsageRecord = {
  /** The first minute: `2026-11-21T08:13`. */
  start: string;
  room: string;
  websocketMs: number;
  webrtcMs: number;
  /** Peak number of peers in the room. */
  peakPeers: number;
};

export type Granularity = 'minute' | 'hour' | 'day';

/** Minutes from `from` to before `to`, by name: `2026-11-21T08:13`. */
export type MinuteRange = { from: string; to: string };

type Usage = Omit<UsageRecord, 'start' | 'room'>;
/** Usage by start and room. */
type Buckets = Map<string, Map<string, Usage>>;

/**
 * Reads the usage of an account day by day, in slices between which Redis and the event loop do other work.
 * Minutes that are not closed yet are included.
 */
export class UsageReader {
  readonly #redis: Redis;
  readonly #limits: string[];

  constructor(redis: Redis, maxRecords = MAX_RECORDS_A_DAY) {
    this.#redis = redis;
    this.#limits = limitsOf(maxRecords);
  }

  /** Yields records by start, some at a time. @throws {PartylineError} `overloaded` */
  async *read(
    accountId: number,
    range: MinuteRange,
    granularity: Granularity,
  ): AsyncGenerator<UsageRecord[]> {
    for (const day of daysOf(range)) {
      const buckets = await this.#readDay(accountId, day, range, granularity);
      for (const start of [...buckets.keys()].toSorted()) {
        for (const slice of slicesOf(start, buckets.get(start)!)) {
          yield slice;
          // The consumer may never wait, for example if the kernel empties its socket at once.
          await nextTurn();
        }
        buckets.delete(start);
      }
    }
  }

  async #readDay(
    accountId: number,
    day: string,
    range: MinuteRange,
    granularity: Granularity,
  ): Promise<Buckets> {
    const byHour = granularity !== 'minute' && holdsWholeHours(range, day);
    for (let reads = 1; ; reads += 1) {
      const openBefore = await this.#openMinutes(accountId, day);
      const hours = byHour ? await this.#readHours(accountId, day) : undefined;
      const buckets = hours ?? (await this.#readMinutes(accountId, day));
      for (const minute of openBefore) {
        await this.#addOpen(accountId, minute, buckets, hours !== undefined);
      }
      const openAfter = new Set(await this.#openMinutes(accountId, day));
      // A minute that was closed meanwhile may be in both, or in neither.
      if (reads < MAX_READS && openBefore.some((minute) => !openAfter.has(minute))) continue;
      return foldInto(granularity, range, buckets);
    }
  }

  async #openMinutes(accountId: number, day: string): Promise<string[]> {
    const key = openMinutesKey(accountId);
    const minutes = await this.#redis.run((client) => client.sMembers(key));
    return minutes.filter((minute) => minute.startsWith(day));
  }

  /** @returns undefined if the hours of the day were not added up as its minutes were closed */
  async #readHours(accountId: number, day: string): Promise<Buckets | undefined> {
    const key = hourRecordsKey(accountId, day);
    if (!(await this.#redis.run((client) => client.hExists(key, '=')))) return undefined;
    const buckets: Buckets = new Map();
    await this.#scan(key, (field, value) => {
      if (field !== '=') put(buckets, `${day}T${field.slice(0, 2)}:00`, field.slice(3), value);
    });
    return buckets;
  }

  async #readMinutes(accountId: number, day: string): Promise<Buckets> {
    const buckets: Buckets = new Map();
    await this.#scan(minuteRecordsKey(accountId, day), (field, value) =>
      put(buckets, `${day}T${field.slice(0, 5)}`, field.slice(6), value),
    );
    return buckets;
  }

  /** Adds the usage of an open minute, to its record or its hour, less the part that is there already. */
  async #addOpen(
    accountId: number,
    minute: string,
    buckets: Buckets,
    toHour: boolean,
  ): Promise<void> {
    const options = {
      keys: [USAGE_PREFIX],
      arguments: [String(accountId), minute, OTHER_ROOMS, ...this.#limits],
    };
    const reply = await this.#redis.run((client) => client.readOpenUsage(options));
    const rooms = reply as string[];
    for (let at = 0; at < rooms.length; at += 3) {
      const [room, value, more] = rooms.slice(at, at + 3) as [string, string, string];
      if (toHour) add(buckets, `${minute.slice(0, 13)}:00`, room, usageOf(more));
      else put(buckets, minute, room, value);
    }
    await nextTurn();
  }

  /** A field may come twice, if the hash grows meanwhile. */
  async #scan(key: string, onField: (field: string, value: string) => void): Promise<void> {
    let cursor = '0';
    do {
      const part = await this.#redis.run((client) =>
        client.hScan(key, cursor, { COUNT: FIELDS_AT_ONCE }),
      );
      for (const { field, value } of part.entries) onField(field, value);
      ({ cursor } = part);
      await nextTurn();
    } while (cursor !== '0');
  }
}

/** Filters records by the query, and sums those of one period. */
async function foldInto(
  granularity: Granularity,
  range: MinuteRange,
  buckets: Buckets,
): Promise<Buckets> {
  const digits = { minute: 16, hour: 13, day: 10 }[granularity];
  const folded: Buckets = new Map();
  let handled = 0;
  for (const [start, rooms] of buckets) {
    // Hours are used only if they are requested as a whole.
    if (start < range.from || start >= range.to) continue;
    const group = start.slice(0, digits) + 'T00:00'.slice(digits - 10);
    for (const [room, usage] of rooms) {
      add(folded, group, room, usage);
      handled += 1;
      if (handled % FIELDS_AT_ONCE === 0) await nextTurn();
    }
  }
  return folded;
}

function* slicesOf(start: string, rooms: Map<string, Usage>): Generator<UsageRecord[]> {
  let slice: UsageRecord[] = [];
  const names = rooms.size > MAX_SORTED ? rooms.keys() : [...rooms.keys()].toSorted();
  for (const room of names) {
    slice.push({ start, room, ...rooms.get(room)! });
    if (slice.length < RECORDS_AT_ONCE) continue;
    yield slice;
    slice = [];
  }
  if (slice.length > 0) yield slice;
}

function put(buckets: Buckets, start: string, room: string, value: string): void {
  roomsAt(buckets, start).set(room, usageOf(value));
}

function add(buckets: Buckets, start: string, room: string, more: Usage): void {
  const rooms = roomsAt(buckets, start);
  const before = rooms.get(room);
  rooms.set(room, {
    websocketMs: (before?.websocketMs ?? 0) + more.websocketMs,
    webrtcMs: (before?.webrtcMs ?? 0) + more.webrtcMs,
    peakPeers: Math.max(before?.peakPeers ?? 0, more.peakPeers),
  });
}

function roomsAt(buckets: Buckets, start: string): Map<string, Usage> {
  const known = buckets.get(start);
  if (known) return known;
  const rooms = new Map<string, Usage>();
  buckets.set(start, rooms);
  return rooms;
}

function usageOf(value: string): Usage {
  const [websocketMs = 0, webrtcMs = 0, peakPeers = 0] = value.split(':').map(Number);
  return { websocketMs, webrtcMs, peakPeers };
}

/** Returns true if every hour of a day is requested as a whole. */
function holdsWholeHours({ from, to }: MinuteRange, day: string): boolean {
  return [from, to].every((edge) => !edge.startsWith(day) || edge.endsWith(':00'));
}

/** Counts in milliseconds: as text, the day after 9999-12-31 sorts before it. */
function daysOf({ from, to }: MinuteRange): string[] {
  const days: string[] = [];
  const toMs = Date.parse(`${to}Z`);
  for (let dayMs = Date.parse(from.slice(0, 10)); dayMs < toMs; dayMs += DAY_MS) {
    days.push(new Date(dayMs).toISOString().slice(0, 10));
  }
  return days;
}
