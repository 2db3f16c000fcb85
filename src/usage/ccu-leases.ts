import type { FastifyBaseLogger } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';
import { KEY_PREFIX, type Redis } from '../store/redis.ts';

const LEASE_MS = 45_000;
const RENEW_EVERY_MS = 15_000;
const RETRY_AFTER_MS = 5000;

/**
 * Evicts what has expired, then admits or refuses; by Redis's own clock, which all nodes share.
 * KEYS[1] the account's leases; ARGV: session, limit, lease in ms. Returns { admitted 1 or 0, leases held }.
 */
const ADMIT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local held = redis.call('ZCARD', KEYS[1])
if held >= tonumber(ARGV[2]) then return { 0, held } end
redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3] * 2)
return { 1, held + 1 }
`;

/** Puts off the expiry of sessions, also of one whose lease was lost. ARGV: lease in ms, sessions… */
const RENEW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1] * 2)
return now
`;

/** Counts the unexpired. */
const COUNT = `
local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], '(' .. (time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
`;

const leasesKey = (accountId: number) => `${KEY_PREFIX}ccu:${accountId}`;

/**
 * Who is connected, over all nodes: a lease per session, which runs out by itself when the node that held it is killed.
 */
export class CcuLeases {
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  /** The sessions of this process, by account. */
  readonly #held = new Map<number, Set<string>>();
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
  async admit(accountId: number, sessionId: string, maxCcu: number): Promise<number> {
    const reply = await this.#redis.run((client) =>
      client.eval(ADMIT, {
        keys: [leasesKey(accountId)],
        arguments: [sessionId, String(maxCcu), String(LEASE_MS)],
      }),
    );
    const [admitted, held] = reply as [number, number];
    if (admitted === 0) {
      const message = `All ${maxCcu} connections of the account are in use.`;
      throw new PartylineError('ccu_limit', message, { retryAfterMs: RETRY_AFTER_MS });
    }
    const sessions = this.#held.get(accountId) ?? new Set();
    this.#held.set(accountId, sessions.add(sessionId));
    return held;
  }

  async count(accountId: number): Promise<number> {
    const keys = [leasesKey(accountId)];
    return Number(await this.#redis.run((client) => client.eval(COUNT, { keys })));
  }

  /** Gives a lease back; if Redis is away, it runs out by itself. */
  async release(accountId: number, sessionId: string): Promise<void> {
    const sessions = this.#held.get(accountId);
    if (!sessions?.delete(sessionId)) return;
    if (sessions.size === 0) this.#held.delete(accountId);
    await this.#redis.run((client) => client.zRem(leasesKey(accountId), sessionId));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #renew(): Promise<void> {
    for (const [accountId, sessions] of this.#held) {
      try {
        await this.#redis.run((client) =>
          client.eval(RENEW, {
            keys: [leasesKey(accountId)],
            arguments: [String(LEASE_MS), ...sessions],
          }),
        );
      } catch (fault) {
        this.#log.warn({ err: fault, account: accountId }, 'leases not renewed; tried again later');
      }
    }
  }
}
