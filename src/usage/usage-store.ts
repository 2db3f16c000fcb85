import { KEY_PREFIX, type Redis } from '../store/redis.ts';
import { type MinuteCount, monthOf } from './meter.ts';

/**
 * Usage in Redis. Each process writes what it has counted of a minute, under its own name and in place of what it wrote
 * before; closing a minute adds to the month by how much the sum has grown since the minute was last closed. So writing
 * late, twice or never again, and closing late, twice or at the same time, all come to the same sums.
 *
 * usage:open                    sorted set of account|minute that wait to be closed, by time
 * usage:open:{account}          set of the minutes of an account that wait to be closed
 * usage:open:{account}:{minute} hash: process|room → websocketMs:webrtcMs:peak, and "=" → what the month has of it
 * usage:months:{account}        hash: month → peer-ms
 * usage:records:{account}:{day} hash: HH:MM|room → websocketMs:webrtcMs:peak
 */
const PREFIX = `${KEY_PREFIX}usage:`;
/** Lua takes so many values at once. */
const FIELDS_AT_ONCE = 2000;
/** A process that cannot reach Redis for longer loses what it counted before. */
const OPEN_KEPT_S = 48 * 3600;

/** Account, minute, its number since 1970, and then process|room and count in turn. */
type WrittenMinute = [number, string, number, string[]];

/** ARGV[1]: JSON of {@link WrittenMinute}s. */
const WRITE = `
for _, count in ipairs(cjson.decode(ARGV[1])) do
  local account, minute = count[1], count[2]
  local open = KEYS[1] .. 'open:' .. account .. ':' .. minute
  redis.call('HSET', open, unpack(count[4]))
  redis.call('EXPIRE', open, ${OPEN_KEPT_S})
  redis.call('SADD', KEYS[1] .. 'open:' .. account, minute)
  redis.call('ZADD', KEYS[1] .. 'open', count[3], account .. '|' .. minute)
end
`;

/** What an account has used in a month, in peer-ms: ARGV[1] account, ARGV[2] month. */
const TOTAL = `
local total = tonumber(redis.call('HGET', KEYS[1] .. 'months:' .. ARGV[1], ARGV[2]) or '0')
for _, minute in ipairs(redis.call('SMEMBERS', KEYS[1] .. 'open:' .. ARGV[1])) do
  if string.sub(minute, 1, 7) == ARGV[2] then
    local open = redis.call('HGETALL', KEYS[1] .. 'open:' .. ARGV[1] .. ':' .. minute)
    for i = 1, #open, 2 do
      if open[i] == '=' then
        total = total - tonumber(open[i + 1])
      else
        local websocket, webrtc = string.match(open[i + 1], '^(%d+):(%d+):')
        total = total + tonumber(websocket) + tonumber(webrtc)
      end
    end
  end
end
return string.format('%.0f', total)
`;

/** Records a minute: ARGV[1] account, ARGV[2] minute, ARGV[3] how long the record is kept, in seconds. */
const CLOSE = `
local account, minute = ARGV[1], ARGV[2]
local open = KEYS[1] .. 'open:' .. account .. ':' .. minute
local rooms, sum, counted = {}, 0, 0
local fields = redis.call('HGETALL', open)
for i = 1, #fields, 2 do
  if fields[i] == '=' then
    counted = tonumber(fields[i + 1])
  else
    local room = string.match(fields[i], '^[^|]*|(.*)$')
    local websocket, webrtc, peak = string.match(fields[i + 1], '^(%d+):(%d+):(%d+)$')
    local total = rooms[room] or { 0, 0, 0 }
    rooms[room] = { total[1] + websocket, total[2] + webrtc, total[3] + peak }
    sum = sum + websocket + webrtc
  end
end
if #fields > 0 then
  local records = KEYS[1] .. 'records:' .. account .. ':' .. string.sub(minute, 1, 10)
  for room, total in pairs(rooms) do
    local value = string.format('%.0f:%.0f:%d', total[1], total[2], total[3])
    redis.call('HSET', records, string.sub(minute, 12) .. '|' .. room, value)
  end
  redis.call('EXPIRE', records, ARGV[3])
  redis.call('HINCRBY', KEYS[1] .. 'months:' .. account, string.sub(minute, 1, 7), string.format('%.0f', sum - counted))
  redis.call('HSET', open, '=', string.format('%.0f', sum))
end
redis.call('SREM', KEYS[1] .. 'open:' .. account, minute)
redis.call('ZREM', KEYS[1] .. 'open', account .. '|' .. minute)
`;

/** What was used of a room in a minute, over all processes. */
export type UsageRecord = {
  minute: string;
  room: string;
  websocketMs: number;
  webrtcMs: number;
  peakPeers: number;
};

/** A minute of an account that is not recorded yet. */
export type OpenMinute = { accountId: number; minute: string };

export class UsageStore {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /**
   * Writes what a process has counted, in place of what it wrote before.
   * @throws {PartylineError} `overloaded`; it may have been written all the same, and may be written again
   */
  async write(counts: MinuteCount[]): Promise<void> {
    const minutes = new Map<string, WrittenMinute>();
    const full: WrittenMinute[] = [];
    for (const { writer, accountId, minute, room, websocketMs, webrtcMs, peakPeers } of counts) {
      const key = `${accountId}|${minute}`;
      const of = minutes.get(key) ?? [accountId, minute, Date.parse(`${minute}Z`) / 60_000, []];
      const value = [Math.round(websocketMs), Math.round(webrtcMs), peakPeers].join(':');
      of[3].push(`${writer}|${room}`, value);
      minutes.set(key, of);
      if (of[3].length < FIELDS_AT_ONCE) continue;
      full.push(of);
      minutes.delete(key);
    }
    await this.#eval(WRITE, [JSON.stringify([...full, ...minutes.values()])]);
  }

  /** What an account has used in the calendar month (UTC) of a moment, in peer-ms; live. */
  async readMonthMs(accountId: number, wallMs: number): Promise<number> {
    return Number(await this.#eval(TOTAL, [String(accountId), monthOf(wallMs)]));
  }

  /** How many minutes wait to be closed. */
  countOpen(): Promise<number> {
    return this.#redis.run((client) => client.zCard(`${PREFIX}open`));
  }

  /** The minutes before `beforeMs` that wait to be closed, the oldest first. */
  async listOpen(beforeMs: number): Promise<OpenMinute[]> {
    const before = Math.floor(beforeMs / 60_000) - 1;
    const members = await this.#redis.run((client) =>
      client.zRangeByScore(`${PREFIX}open`, '-inf', before),
    );
    return members.map((member) => {
      const [accountId, minute = ''] = member.split('|');
      return { accountId: Number(accountId), minute };
    });
  }

  /** Records a minute, and adds to its month what the month does not have of it yet. */
  async close({ accountId, minute }: OpenMinute, keepDays: number): Promise<void> {
    await this.#eval(CLOSE, [String(accountId), minute, String(keepDays * 86_400)]);
  }

  /** What is recorded, and what is not recorded yet, of the minutes from `fromMs` to before `toMs`, in their order. */
  async readRecords(accountId: number, fromMs: number, toMs: number): Promise<UsageRecord[]> {
    const records = new Map<string, UsageRecord>();
    const put = (minute: string, room: string, value: string, isMore = false) => {
      const [websocketMs = 0, webrtcMs = 0, peakPeers = 0] = value.split(':').map(Number);
      const key = `${minute}|${room}`;
      const before = (isMore && records.get(key)) || { websocketMs: 0, webrtcMs: 0, peakPeers: 0 };
      records.set(key, {
        minute,
        room,
        websocketMs: before.websocketMs + websocketMs,
        webrtcMs: before.webrtcMs + webrtcMs,
        peakPeers: before.peakPeers + peakPeers,
      });
    };
    // Open ones are read last: what has been recorded in between is in both.
    const days = daysBetween(fromMs, toMs);
    const [recorded, open] = await this.#redis.run(async (client) => {
      const ofDays = await Promise.all(
        days.map((day) => client.hGetAll(`${PREFIX}records:${accountId}:${day}`)),
      );
      const minutes = await client.sMembers(`${PREFIX}open:${accountId}`);
      const ofMinutes = await Promise.all(
        minutes.map((minute) => client.hGetAll(`${PREFIX}open:${accountId}:${minute}`)),
      );
      return [ofDays, minutes.map((minute, index) => [minute, ofMinutes[index]!] as const)];
    });
    for (const [index, fields] of recorded.entries()) {
      for (const [field, value] of Object.entries(fields)) {
        put(`${days[index]}T${field.slice(0, 5)}`, field.slice(6), value);
      }
    }
    for (const [minute, fields] of open) {
      for (const key of records.keys()) if (key.startsWith(`${minute}|`)) records.delete(key);
      for (const [field, value] of Object.entries(fields)) {
        if (field !== '=') put(minute, field.slice(field.indexOf('|') + 1), value, true);
      }
    }
    return [...records.values()]
      .filter(({ minute }) => Date.parse(`${minute}Z`) >= fromMs && Date.parse(`${minute}Z`) < toMs)
      .toSorted((one, other) => compare(one.minute, other.minute) || compare(one.room, other.room));
  }

  #eval(script: string, scriptArguments: string[]): Promise<unknown> {
    return this.#redis.run((client) =>
      client.eval(script, { keys: [PREFIX], arguments: scriptArguments }),
    );
  }
}

const compare = (one: string, other: string) => (one < other ? -1 : one > other ? 1 : 0);

function daysBetween(fromMs: number, toMs: number): string[] {
  const DAY_MS = 86_400_000;
  const days: string[] = [];
  for (let at = Math.floor(fromMs / DAY_MS) * DAY_MS; at < toMs; at += DAY_MS) {
    days.push(new Date(at).toISOString().slice(0, 10));
  }
  return days;
}
