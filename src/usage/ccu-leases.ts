import type { FastifyBaseLogger } from 'fastify';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Timings } from '../../config/timings.ts';
import { PartylineError, replaced } from '../protocol/errors.ts';
import { leaseKeys, leaseOrderKey, resumeKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

/** Lua takes so many values at once. */
const RENEW_AT_ONCE = 1000;

/**
 * A lease is of a peer, and held by the connection that took it last: who replaces himself, on whatever node, takes over his
 * own. KEYS[1] is a sorted set: peer → expiry in ms by Redis's own clock, which all nodes share; KEYS[2] a hash: peer →
 * connection; KEYS[3] a hash: peer → where it is, for who comes back to it on another node; KEYS[4] a hash: peer → its session
 * and what it has set there, separated by a space. KEYS[5], where it is given, is a string that holds the same for a while
 * after a client that was in no room has lost its connection, and with it its lease; KEYS[6] is the order of the account's
 * last lease.
 */

/**
 * Evicts what has expired, then admits or refuses. ARGV: peer, connection, limit, lease in ms, whether another connection of
 * the peer is newer, session, settings of a new session. Returns { 1, or 0 if the limit is reached, or -1 if there is a newer
 * one; leases held; where the peer is on a connection that it had before; 1 if the session is known, 0 if it is new; its
 * settings; the order of the lease, higher than that of every one before it }.
 */
const ADMIT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, peer in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do
  redis.call('HDEL', KEYS[2], peer)
  redis.call('HDEL', KEYS[3], peer)
  redis.call('HDEL', KEYS[4], peer)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local held = redis.call('ZCARD', KEYS[1])
local holder = redis.call('HGET', KEYS[2], ARGV[1])
if ARGV[5] == '1' and holder and holder ~= ARGV[2] then return { -1, held, false } end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if held >= tonumber(ARGV[3]) then return { 0, held, false } end
  held = held + 1
end
redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
-- By the clock, so that it goes on rising when this key was lost.
local order = math.max(time[1] * 1000000 + time[2], (tonumber(redis.call('GET', KEYS[6])) or 0) + 1)
redis.call('SET', KEYS[6], string.format('%.0f', order))
local prefix = ARGV[6] .. ' '
local stored = redis.call('HGET', KEYS[4], ARGV[1]) or redis.call('GET', KEYS[5]) or ''
local known = string.sub(stored, 1, #prefix) == prefix
if not known then stored = prefix .. ARGV[7] end
redis.call('HSET', KEYS[4], ARGV[1], stored)
redis.call('DEL', KEYS[5])
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 2 * ARGV[4]) end
return { 1, held, redis.call('HGET', KEYS[3], ARGV[1]), known and 1 or 0, string.sub(stored, #prefix + 1), order }
`;

/**
 * Puts off the expiry, also of leases that were lost, but not of those that another connection took, which are returned.
 * ARGV: lease in ms, then peer, connection…
 */
const RENEW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local peers, leases, holders, taken = {}, {}, {}, {}
for i = 2, #ARGV, 2 do peers[#peers + 1] = ARGV[i] end
local held = redis.call('HMGET', KEYS[2], unpack(peers))
for i, peer in ipairs(peers) do
  local session = ARGV[2 * i + 1]
  if not held[i] or held[i] == session then
    leases[#leases + 1] = now + ARGV[1]
    leases[#leases + 1] = peer
    holders[#holders + 1] = peer
    holders[#holders + 1] = session
  else
    taken[#taken + 1] = session
  end
end
if #leases > 0 then
  redis.call('ZADD', KEYS[1], unpack(leases))
  redis.call('HSET', KEYS[2], unpack(holders))
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, 2 * ARGV[1]) end
return taken
`;

/** ARGV: peer, connection, where the peer is; empty if in no room. */
const PLACE = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
if ARGV[3] == '' then redis.call('HDEL', KEYS[3], ARGV[1]) else redis.call('HSET', KEYS[3], ARGV[1], ARGV[3]) end
`;

/** ARGV: peer, connection, its session and settings. */
const SAVE = `
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then redis.call('HSET', KEYS[4], ARGV[1], ARGV[3]) end
`;

/** ARGV: peer, connection, for how many ms its settings are kept. */
const RELEASE = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
local settings = redis.call('HGET', KEYS[4], ARGV[1])
if settings and tonumber(ARGV[3]) > 0 then redis.call('SET', KEYS[5], settings, 'PX', ARGV[3]) end
redis.call('HDEL', KEYS[4], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
`;

/** Has those that are held run out in so long. ARGV: ms, then peer, connection… */
const LEAVE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[2], ARGV[i]) == ARGV[i + 1] then
    redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
  end
end
`;

/** Counts the unexpired. */
const COUNT = `
local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '(' .. (time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
`;

const keysOfPeer = ({ accountId, peer }: Holder) => [
  ...leaseKeys(accountId),
  resumeKey(accountId, peer),
  leaseOrderKey(accountId),
];

/** Who holds a lease: a peer of an account, and its connection. */
export type Holder = { accountId: number; peer: string; connectionId: string };

/** What is kept of a session beside its place. */
export type StoredSession = {
  sessionId: string;
  /** What the client has set, as text. */
  settings: string;
};

/** What a connection is given with its lease. */
export type Admission = {
  /** Where the peer is on a connection that it had before, from which the lease is taken over. */
  lastPlace: LastPlace | undefined;
  /** True if the session is one that the peer had before. */
  isResumed: boolean;
  /** Of that session if it is resumed, otherwise those that were given. */
  settings: string;
  /** Higher than that of every lease of the account that was taken before. */
  order: number;
};

/** Where a peer is, and in which session. */
const LastPlaceSchema = Type.Object({
  sessionId: Type.String(),
  room: Type.String(),
  kind: Type.Enum(['websocket', 'webrtc']),
});
export type LastPlace = Static<typeof LastPlaceSchema>;
const lastPlaces = Compile(LastPlaceSchema);

/** What `ADMIT` returns. */
type AdmitReply = [
  admitted: number,
  held: number,
  place: string | null,
  known?: number,
  stored?: string,
  order?: number,
];

/**
 * Who is connected, over all nodes: a lease per peer, which runs out by itself when the node that held it is killed.
 */
export class CcuLeases {
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  /** Of this process, by account. */
  readonly #held = new Map<number, Set<Holder>>();
  readonly #onTaken: (accountId: number, peer: string, connectionId: string) => void;
  readonly #timings: Timings['leases'];
  readonly #timer: NodeJS.Timeout;
  /** Those that could not be given back, because Redis was away, and for how many ms their settings are kept. */
  readonly #unreleased = new Map<Holder, number>();

  /** @param onTaken the same peer has connected on another node, and its word did not come through */
  constructor(
    redis: Redis,
    log: FastifyBaseLogger,
    onTaken: (accountId: number, peer: string, connectionId: string) => void,
    timings: Timings['leases'],
  ) {
    this.#redis = redis;
    this.#onTaken = onTaken;
    this.#log = log;
    this.#timings = timings;
    this.#timer = setInterval(() => void this.#renew(), timings.renewEveryMs);
  }

  /**
   * Takes a lease.
   * @param isMoved the holder is not new, but comes from another process; whoever has connected since then is newer
   * @param session what the holder's session is, if it is not one that the peer had before
   * @throws {PartylineError} `ccu_limit`, `replaced`, `overloaded`
   */
  async admit(
    holder: Holder,
    maxCcu: number,
    isMoved: boolean,
    { sessionId, settings }: StoredSession = { sessionId: '', settings: '' },
  ): Promise<Admission> {
    const { accountId, peer, connectionId } = holder;
    const words = [
      peer,
      connectionId,
      String(maxCcu),
      String(this.#timings.leaseMs),
      isMoved ? '1' : '0',
      sessionId,
      settings,
    ];
    const [admitted, , place, known, stored, order = 0] = await this.#askForLease(holder, words);
    if (admitted === -1) throw replaced();
    if (admitted === 0) {
      const message = `All ${maxCcu} connections of the account are in use.`;
      throw new PartylineError('ccu_limit', message, { retryAfterMs: this.#timings.retryAfterMs });
    }
    const holders = this.#held.get(accountId) ?? new Set();
    this.#held.set(accountId, holders.add(holder));
    const last: unknown = place ? JSON.parse(place) : undefined;
    return {
      lastPlace: lastPlaces.Check(last) ? last : undefined,
      isResumed: known === 1,
      settings: stored ?? settings,
      order,
    };
  }

  /** A lease that Redis gives after its answer was given up belongs to nobody: it is given back later. */
  async #askForLease(holder: Holder, words: string[]): Promise<AdmitReply> {
    try {
      const options = { keys: keysOfPeer(holder), arguments: words };
      return (await this.#redis.run((client) => client.eval(ADMIT, options))) as AdmitReply;
    } catch (fault) {
      this.#unreleased.set(holder, 0);
      throw fault;
    }
  }

  /** Notes what the holder of a lease has set, for when it comes back. */
  async save(holder: Holder, { sessionId, settings }: StoredSession): Promise<void> {
    const { accountId, peer, connectionId } = holder;
    const stored = `${sessionId} ${settings}`;
    const options = { keys: leaseKeys(accountId), arguments: [peer, connectionId, stored] };
    await this.#redis.run((client) => client.eval(SAVE, options));
  }

  /** Notes where the holder of a lease is, for when it comes back on another node. */
  async place({ accountId, peer, connectionId }: Holder, place?: LastPlace): Promise<void> {
    const text = place ? JSON.stringify(place) : '';
    const options = { keys: leaseKeys(accountId), arguments: [peer, connectionId, text] };
    await this.#redis.run((client) => client.eval(PLACE, options));
  }

  async count(accountId: number): Promise<number> {
    const keys = leaseKeys(accountId).slice(0, 1);
    return Number(await this.#redis.run((client) => client.eval(COUNT, { keys })));
  }

  /** Leaves a lease to another process, which takes it over; should it not, it runs out by itself. */
  handOver(holder: Holder): void {
    this.#forget(holder);
  }

  /**
   * Gives a lease back; if Redis is away, when it is there again.
   * @param keepSettingsMs how long its settings are kept, for a client that was in no room and may come back
   */
  async release(holder: Holder, keepSettingsMs = 0): Promise<void> {
    if (!this.#forget(holder)) return;
    this.#unreleased.set(holder, keepSettingsMs);
    await this.#giveBack(holder, keepSettingsMs);
  }

  /** Those that are still held belong to places that are kept for so long after this node has gone, and run out with them. */
  async close(keepMs: number): Promise<void> {
    clearInterval(this.#timer);
    const leaving = [...this.#held].map(([accountId, holders]) => {
      const pairs = [...holders].flatMap(({ peer, connectionId }) => [peer, connectionId]);
      const options = { keys: leaseKeys(accountId), arguments: [String(keepMs), ...pairs] };
      return this.#tryTo(accountId, () => this.#redis.run((client) => client.eval(LEAVE, options)));
    });
    // All at once: a Redis that hangs must not hold up the end of this process for each of them.
    await Promise.all(leaving);
    this.#held.clear();
  }

  /** @returns false if it is not held */
  #forget(holder: Holder): boolean {
    const holders = this.#held.get(holder.accountId);
    if (!holders?.delete(holder)) return false;
    if (holders.size === 0) this.#held.delete(holder.accountId);
    return true;
  }

  async #renew(): Promise<void> {
    for (const [accountId, holders] of this.#held) {
      const all = [...holders];
      await this.#tryTo(accountId, async () => {
        for (let at = 0; at < all.length; at += RENEW_AT_ONCE) {
          await this.#renewSome(accountId, all.slice(at, at + RENEW_AT_ONCE));
        }
      });
    }
    for (const [holder, keepSettingsMs] of this.#unreleased) {
      const giveBack = () => this.#giveBack(holder, keepSettingsMs);
      // Where one is not, the others would not be either.
      if (!(await this.#tryTo(holder.accountId, giveBack))) break;
    }
  }

  /** @returns false if Redis did not answer, which is logged */
  async #tryTo(accountId: number, work: () => Promise<unknown>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (fault) {
      this.#log.warn({ err: fault, account: accountId }, 'leases not renewed; retrying');
      return false;
    }
  }

  async #giveBack(holder: Holder, keepSettingsMs: number): Promise<void> {
    const { peer, connectionId } = holder;
    const words = [peer, connectionId, String(keepSettingsMs)];
    const options = { keys: keysOfPeer(holder), arguments: words };
    await this.#redis.run((client) => client.eval(RELEASE, options));
    this.#unreleased.delete(holder);
  }

  async #renewSome(accountId: number, holders: Holder[]): Promise<void> {
    const pairs = holders.flatMap(({ peer, connectionId }) => [peer, connectionId]);
    const options = {
      keys: leaseKeys(accountId),
      arguments: [String(this.#timings.leaseMs), ...pairs],
    };
    const taken = (await this.#redis.run((client) => client.eval(RENEW, options))) as string[];
    for (const { peer, connectionId } of holders) {
      if (taken.includes(connectionId)) this.#onTaken(accountId, peer, connectionId);
    }
  }
}
