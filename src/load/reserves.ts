import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { Counters } from '../counters.ts';
import { PartylineError } from '../protocol/errors.ts';
import { type Resource, RESOURCES } from '../resources.ts';

/** Newcomers are refused until this much of the reserve, and half of it more, is free again. */
const FREE_AGAIN = 1.5;

/** How much is in use, and how much there can be at most; in bytes, or a number of things. */
export type Usage = { used: number; limit: number };

/** Something that can run out, and of which a part is kept from newcomers. */
export type Supply = {
  resource: Resource;
  /** Name in the log. */
  name: string;
  /** Looks how much is in use; undefined while nothing bounds it. It may fail when descriptors have run out. */
  measure: () => Usage | undefined;
  /** How much of a limit newcomers may not take. */
  reserveOf: (limit: number) => number;
  /** Told after each look how much newcomers may take. */
  onFree?: (free: number) => void;
};

/** State of a resource: whether new clients are refused for it, and its free share; undefined where nothing bounds it. */
export type ResourceState = { isShort: boolean; freeShare: number | undefined };

type Watched = Supply & { usage: Usage | undefined; isShort: boolean };

/**
 * Keeps newcomers out while no more is left of something than a reserve: those who are within need it to open rooms,
 * to replace a media worker, to reach Redis and to log. Shortages of resources that cannot be measured are known by
 * their faults: after one, new clients are refused for some seconds.
 */
export class Reserves {
  readonly #log: FastifyBaseLogger;
  readonly #timings: Timings['load'];
  readonly #supplies: Watched[];
  /** Faults so far, by resource. */
  readonly #faults: Counters['shortages'];
  #faultsBefore: Counters['shortages'];
  readonly #shortUntilMs = new Map<Resource, number>();
  readonly #timer: NodeJS.Timeout;
  #short: Resource[] = [];

  /** @param faults how many faults each resource has caused in this process */
  constructor(
    log: FastifyBaseLogger,
    timings: Timings['load'],
    supplies: Supply[],
    faults: Counters['shortages'],
  ) {
    this.#log = log;
    this.#timings = timings;
    this.#supplies = supplies.map((supply) => ({ ...supply, usage: undefined, isShort: false }));
    this.#faults = faults;
    this.#faultsBefore = { ...faults };
    this.#timer = setInterval(() => this.sample(), timings.sampleEveryMs);
  }

  get isShort(): boolean {
    return this.#short.length > 0;
  }

  /** How each resource stands, as of the last look. */
  describe(): Record<Resource, ResourceState> {
    const stateOf = (resource: Resource): ResourceState => {
      const shares = this.#supplies.flatMap(({ resource: of, usage }) =>
        of === resource && usage && Number.isFinite(usage.limit)
          ? Math.max(0, usage.limit - usage.used) / usage.limit
          : [],
      );
      const freeShare = shares.length > 0 ? Math.min(...shares) : undefined;
      return { isShort: this.#short.includes(resource), freeShare };
    };
    return {
      descriptors: stateOf('descriptors'),
      memory: stateOf('memory'),
      threads: stateOf('threads'),
      ports: stateOf('ports'),
      disk: stateOf('disk'),
    };
  }

  /** Looks how much is left now. */
  sample(): void {
    for (const supply of this.#supplies) this.#look(supply);
    const nowMs = performance.now();
    const short = RESOURCES.filter((resource) => this.#isShortOf(resource, nowMs));
    for (const resource of RESOURCES) {
      const [is, was] = [short.includes(resource), this.#short.includes(resource)];
      if (is && !was)
        this.#log.warn(this.#figures(resource), `short of ${resource}: nobody new is let in`);
      if (was && !is) this.#log.info(this.#figures(resource), `no longer short of ${resource}`);
    }
    this.#short = short;
    this.#faultsBefore = { ...this.#faults };
  }

  /** @throws {PartylineError} `overloaded` while no more than the reserve of something is left */
  check(): void {
    if (!this.isShort) return;
    const options = { retryAfterMs: this.#timings.retryAfterMs };
    throw new PartylineError(
      'overloaded',
      `This node is short of ${this.#short.join(', ')}.`,
      options,
    );
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #look(supply: Watched): void {
    try {
      supply.usage = supply.measure();
    } catch {
      // To read a file takes a descriptor; the next look may find one.
    }
    if (!supply.usage) {
      supply.isShort = false;
      return;
    }
    const { used, limit } = supply.usage;
    const reserve = supply.reserveOf(limit);
    supply.isShort = limit - used < reserve * (supply.isShort ? FREE_AGAIN : 1);
    supply.onFree?.(Math.max(0, limit - used - reserve));
  }

  #isShortOf(resource: Resource, nowMs: number): boolean {
    if (this.#faults[resource] > this.#faultsBefore[resource]) {
      this.#shortUntilMs.set(resource, nowMs + this.#timings.shortAfterFaultMs);
    }
    if (nowMs < (this.#shortUntilMs.get(resource) ?? -Infinity)) return true;
    return this.#supplies.some((supply) => supply.resource === resource && supply.isShort);
  }

  #figures(resource: Resource) {
    const supplies = this.#supplies.filter((supply) => supply.resource === resource);
    const figures = supplies.flatMap(({ name, usage }) => (usage ? [[name, usage]] : []));
    return { ...Object.fromEntries(figures), faults: this.#faults[resource] };
  }
}
