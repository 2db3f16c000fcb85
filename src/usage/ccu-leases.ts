import type { FastifyBaseLogger } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';
import { KEY_PREFIX, type Redis } from '../store/redis.ts';

const LEASE_MS = 45_000;
const RENEW_EVERY_MS = 15_000;
/** Lua takes so many values at once. */
const RENEW_AT_ONCE = 1000;
const RETRY_AFTER_MS = 5000;

/**
 * A lease is of a peer, and held by the session that took it last: who replaces himself, on whatever node, takes over his
 * own. KEYS[1] is a sorted set: peer → expiry in ms by Redis's own clock, which all nodes share; KEYS[2] a hash: peer →
 * session.
 */

/** Evicts what has expired, then admits or refuses. ARGV: peer, session, limit, lease in ms. Returns { 1 or 0, leases held }. */
const ADMIT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, peer in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)) do redis.call('HDEL', KEYS[2], peer) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local held = redis.call('ZCARD', KEYS[1])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if held >= tonumber(ARGV[3]) then return { 0, held } end
  held = held + 1
end
redis.call('ZADD', KEYS[1], now + ARGV[4], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[4] * 2)
redis.call('PEXPIRE', KEYS[2], ARGV[4] * 2)
return { 1, held }
`;

/** Puts off the expiry, also of leases that were lost, but not of those that another session took. ARGV: lease in ms, then peer, session… */
const RENEW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local peers, leases, holders = {}, {}, {}
for i = 2, #ARGV, 2 do peers[#peers + 1] = ARGV[i] end
local held = redis.call('HMGET', KEYS[2], unpack(peers))
for i, peer in ipairs(peers) do
  local session = ARGV[2 * i + 1]
  if not held[i] or held[i] == session then
    leases[#leases + 1] = now + ARGV[1]
    leases[#leases + 1] = peer
    holders[#holders + 1] = peer
    holders[#holders + 1] = session
  end
end
if #leases > 0 then
  redis.call('ZADD', KEYS[1], unpack(leases))
  redis.call('HSET', KEYS[2], unpack(holders))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
redis.call('PEXPIRE', KEYS[2], ARGV[1] * 2)
`;

/** ARGV: peer, session. */
const RELEASE = `
if redis.call('HGET', KEYS[2], ARGV[1]) ~= ARGV[2] then return end
redis.call('HDEL', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[1], ARGV[1])
`;

/** Counts the unexpired. */
const COUNT = `
local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '(' .. (time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
`;

const keysOf = (accountId: number) => [
  `${KEY_PREFIX}ccu:${accountId}`,
  `${KEY_PREFIX}ccu:${accountId}:holders`,
];

/** Who holds a lease: a peer of an account, and the session in which it is connected. */
export type Holder = { accountId: number; peer: string; sessionId: string };

/**
 * Who is connected, over all nodes: a lease per peer, which runs out by itself when the node that held it is killed.
 */
export class CcuLeases {
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  /** Of this process, by account. */
  readonly #held = new Map<number, Set<Holder>>();
  readonly #timer: NodeJS.Timeout;

  constructor(redis: Redis, log: FastifyBaseLogger) {
    this.#redis = redis;
    this.#log = log;
    this.#timer = setInterval(() => void this.#renew(), RENEW_EVERY_MS);
  }

  /**
   * Takes a lease.
   * @returns how many the account holds now, this one among them
   * @throws {PartylineError} `ccu_limit`, `overloaded`
   */
  async admit(holder: Holder, maxCcu: number): Promise<number> {
    const { accountId, peer, sessionId } = holder;
    const reply = await this.#redis.run((client) =>
      client.eval(ADMIT, {
        keys: keysOf(accountId),
        arguments: [peer, sessionId, String(maxCcu), String(LEASE_MS)],
      }),
    );
    const [admitted, held] = reply as [number, number];
    if (admitted === 0) {
      const message = `All ${maxCcu} connections of the account are in use.`;
      throw new PartylineError('ccu_limit', message, { retryAfterMs: RETRY_AFTER_MS });
    }
    const holders = this.#held.get(accountId) ?? new Set();
    this.#held.set(accountId, holders.add(holder));
    return held;
  }

  async count(accountId: number): Promise<number> {
    const keys = keysOf(accountId).slice(0, 1);
    return Number(await this.#redis.run((client) => client.eval(COUNT, { keys })));
  }

  /** Gives a lease back; if Redis is away, it runs out by itself. */
  async release(holder: Holder): Promise<void> {
    const { accountId, peer, sessionId } = holder;
    const holders = this.#held.get(accountId);
    if (!holders?.delete(holder)) return;
    if (holders.size === 0) this.#held.delete(accountId);
    await this.#redis.run((client) =>
      client.eval(RELEASE, { keys: keysOf(accountId), arguments: [peer, sessionId] }),
    );
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    for (const [accountId, holders] of this.#held) {
      const all = [...holders];
      try {
        for (let at = 0; at < all.length; at += RENEW_AT_ONCE) {
          await this.#renewSome(accountId, all.slice(at, at + RENEW_AT_ONCE));
        }
      } catch (fault) {
        this.#log.warn({ err: fault, account: accountId }, 'leases not renewed; tried again later');
      }
    }
  }

  async #renewSome(accountId: number, holders: Holder[]): Promise<void> {
    const pairs = holders.flatMap(({ peer, sessionId }) => [peer, sessionId]);
    await this.#redis.run((client) =>
      client.eval(RENEW, { keys: keysOf(accountId), arguments: [String(LEASE_MS), ...pairs] }),
    );
  }
}
