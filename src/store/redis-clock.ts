import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { Redis } from './redis.ts';

/**
 * Change of Redis's clock against the monotonic one that counts as a jump, ms; less is drift, which is
 * followed without a step back.
 */
const JUMP_MS = 2000;
/** Difference between this machine's clock and Redis's from which a warning is logged. */
const MAX_OFFSET_MS = 2000;

/** Clocks of this machine, ms: wall time since 1970, which may be wrong or jump, and a monotonic clock. */
export type OwnClocks = { wallMs: () => number; monotonicMs: () => number };

const ownClocks: OwnClocks = { wallMs: () => Date.now(), monotonicMs: () => performance.now() };

/**
 * The wall clock that all processes share: Redis's clock, extrapolated between two readings by the monotonic clock of this
 * machine. This machine's own wall clock may be wrong by days, or jump, without effect here.
 */
export class RedisClock {
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #own: OwnClocks;
  readonly #timer: NodeJS.Timeout;
  /** Redis's time less the monotonic time, ms. */
  #aheadMs: number | undefined;
  /** Latest time that was returned, ms since 1970. */
  #latestMs = 0;
  #jumps = 0;
  #isOff = false;
  #syncing: Promise<void> | undefined;

  private constructor(redis: Redis, log: FastifyBaseLogger, everyMs: number, own: OwnClocks) {
    this.#redis = redis;
    this.#log = log;
    this.#own = own;
    this.#timer = setInterval(() => void this.sync(), everyMs);
  }

  /** @throws {PartylineError} `overloaded` if Redis does not return its time now; later it may be disconnected */
  static async open(
    redis: Redis,
    log: FastifyBaseLogger,
    { clockEveryMs }: Pick<Timings['redis'], 'clockEveryMs'>,
    own: OwnClocks = ownClocks,
  ): Promise<RedisClock> {
    const clock = new RedisClock(redis, log, clockEveryMs, own);
    try {
      await clock.#sync();
    } catch (fault) {
      clock.close();
      throw fault;
    }
    return clock;
  }

  /** Redis's time, ms since 1970, UTC. It decreases only when Redis's clock has jumped back. */
  wallMs = (): number => {
    this.#latestMs = Math.max(this.#latestMs, this.#own.monotonicMs() + this.#aheadMs!);
    return this.#latestMs;
  };

  /** Monotonic time of this process, ms. */
  monotonicMs = (): number => this.#own.monotonicMs();

  /** Lead of this machine's own clock over Redis's, ms. */
  get offsetMs(): number {
    return this.#own.wallMs() - this.wallMs();
  }

  /** Number of jumps of Redis's clock. */
  get jumps(): number {
    return this.#jumps;
  }

  /** Reads Redis's clock now; keeps extrapolating while Redis is disconnected. */
  async sync(): Promise<void> {
    this.#syncing ??= this.#sync()
      // The Redis client has logged it.
      .catch(() => {})
      .finally(() => {
        this.#syncing = undefined;
      });
    await this.#syncing;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #sync(): Promise<void> {
    const sentMs = this.#own.monotonicMs();
    const [seconds, microseconds] = await this.#redis.run((client) => client.time());
    const receivedMs = this.#own.monotonicMs();
    const redisMs = Number(seconds) * 1000 + Number(microseconds) / 1000;
    // Redis read its clock between these two times.
    const [least, most] = [redisMs - receivedMs, redisMs - sentMs];
    const before = this.#aheadMs;
    const aheadMs =
      before === undefined ? (least + most) / 2 : Math.min(Math.max(before, least), most);
    this.#aheadMs = aheadMs;
    if (before !== undefined && Math.abs(aheadMs - before) > JUMP_MS) {
      this.#jumps += 1;
      this.#latestMs = 0;
      const byS = Math.round((aheadMs - before) / 1000);
      this.#log.warn({ by_s: byS }, 'redis clock jumped');
    }
    this.#checkOwn();
  }

  #checkOwn(): void {
    const { offsetMs } = this;
    const isOff = Math.abs(offsetMs) > MAX_OFFSET_MS;
    const offset = { ahead_s: Math.round(offsetMs / 1000) };
    if (isOff && !this.#isOff) this.#log.warn(offset, 'machine clock wrong; redis clock used');
    if (!isOff && this.#isOff) this.#log.info(offset, 'machine clock right again');
    this.#isOff = isOff;
  }
}
