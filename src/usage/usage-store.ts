import { monthsKey, OPEN_MINUTES, USAGE_PREFIX } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import {
  MAX_RECORDS_A_DAY,
  MAX_ROOMS_A_MINUTE,
  type MinuteCount,
  monthOf,
  OTHER_ROOMS,
} from './meter.ts';

const MINUTE_MS = 60_000;
/** Maximum number of values in one command of a script, which Lua puts on its stack. */
const FIELDS_AT_ONCE = 2000;
/** Maximum number of counts in one command: few enough for Redis to answer in time, also on a slow machine. */
export const COUNTS_AT_ONCE = 5000;
/** Maximum number of minutes in each list of `listOpen`; the next call lists the rest. */
const LISTED_AT_ONCE = 20_000;

/** Account, minute, minutes since 1970, and then alternately `writer|room` and its count. */
type WrittenMinute = [number, string, number, string[]];

/** A minute of an account that is not recorded yet. */
export type OpenMinute = { accountId: number; minute: string };

/**
 * Usage in Redis (docs/redis.md). Each process writes its count of a minute under its own name, in place of its
 * previous one, and the month grows by the difference. Closing a minute records it, and adds to the month what it lacks. Late, repeated and
 * concurrent writes and closes therefore give the same sums.
 */
export class UsageStore {
  readonly #redis: Redis;
  readonly #limits: string[];

  constructor(redis: Redis, maxRecords = MAX_RECORDS_A_DAY) {
    this.#redis = redis;
    this.#limits = limitsOf(maxRecords);
  }

  /** False if a command would fail at once, because Redis is disconnected. */
  get isReady(): boolean {
    return this.#redis.isReady;
  }

  /**
   * Writes the counts of a process, in place of its previous ones, some at a time.
   * @param onWritten called with each part that has been written
   * @throws {PartylineError} `overloaded`; parts may have been written, and may be written again
   */
  async write(
    minuteCounts: MinuteCount[],
    onWritten: (part: MinuteCount[]) => void = () => {},
  ): Promise<void> {
    for (let at = 0; at < minuteCounts.length; at += COUNTS_AT_ONCE) {
      const part = minuteCounts.slice(at, at + COUNTS_AT_ONCE);
      await this.#writePart(part);
      onWritten(part);
    }
  }

  async #writePart(minuteCounts: MinuteCount[]): Promise<void> {
    const minutes = new Map<string, WrittenMinute>();
    const full: WrittenMinute[] = [];
    for (const {
      writer,
      accountId,
      minute,
      room,
      websocketMs,
      webrtcMs,
      peakPeers,
    } of minuteCounts) {
      const key = `${accountId}|${minute}`;
      const of = minutes.get(key) ?? [accountId, minute, Date.parse(`${minute}Z`) / MINUTE_MS, []];
      const value = [Math.round(websocketMs), Math.round(webrtcMs), peakPeers].join(':');
      of[3].push(`${writer}|${room}`, value);
      minutes.set(key, of);
      if (of[3].length < FIELDS_AT_ONCE) continue;
      full.push(of);
      minutes.delete(key);
    }
    const written = JSON.stringify([...full, ...minutes.values()]);
    const options = { keys: [USAGE_PREFIX], arguments: [written] };
    await this.#redis.run((client) => client.writeUsage(options));
  }

  /** Returns the usage of an account in the month (UTC) of `wallMs` until now, ms summed over its peers. @throws {PartylineError} `overloaded` */
  async readMonthMs(accountId: number, wallMs: number): Promise<number> {
    const month = monthOf(wallMs);
    return Number(await this.#redis.run((client) => client.hGet(monthsKey(accountId), month)));
  }

  /**
   * Counts the minutes that wait to be closed.
   * @returns their number, and when the oldest of them ended (undefined if none waits)
   * @throws {PartylineError} `overloaded`
   */
  async countOpen(): Promise<{ minutes: number; oldestEndWallMs: number | undefined }> {
    const [minutes, [oldest]] = await this.#redis.run((client) =>
      Promise.all([client.zCard(OPEN_MINUTES), client.zRangeWithScores(OPEN_MINUTES, 0, 0)]),
    );
    return { minutes, oldestEndWallMs: oldest && (oldest.score + 1) * MINUTE_MS };
  }

  /**
   * Lists minutes that wait to be closed, the oldest first: those that ended by `beforeWallMs`, and those that begin after
   * `afterWallMs`, which come from a clock that was ahead.
   * @throws {PartylineError} `overloaded`
   */
  async listOpen(beforeWallMs: number, afterWallMs = Infinity): Promise<OpenMinute[]> {
    const before = Math.floor(beforeWallMs / MINUTE_MS) - 1;
    const after = afterWallMs === Infinity ? '+inf' : `(${Math.floor(afterWallMs / MINUTE_MS)}`;
    const limit = { BY: 'SCORE', LIMIT: { offset: 0, count: LISTED_AT_ONCE } } as const;
    const members = await this.#redis.run((client) =>
      Promise.all([
        client.zRange(OPEN_MINUTES, '-inf', before, limit),
        client.zRange(OPEN_MINUTES, after, '+inf', limit),
      ]),
    );
    return members.flat().map((member) => {
      const [accountId, minute = ''] = member.split('|');
      return { accountId: Number(accountId), minute };
    });
  }

  /**
   * Records a minute, and adds to its month what that lacks. May be repeated.
   * @param keepDays time for which the record is kept, days
   * @throws {PartylineError} `overloaded`
   */
  async close({ accountId, minute }: OpenMinute, keepDays: number): Promise<void> {
    const kept = [String(accountId), minute, String(keepDays * 86_400)];
    const options = {
      keys: [USAGE_PREFIX],
      arguments: [...kept, OTHER_ROOMS, ...this.#limits],
    };
    await this.#redis.run((client) => client.closeUsageMinute(options));
  }
}

/** Arguments of the scripts that add rooms up. */
export const limitsOf = ({ hours, minutes }: typeof MAX_RECORDS_A_DAY): string[] =>
  [MAX_ROOMS_A_MINUTE, hours, minutes].map(String);
