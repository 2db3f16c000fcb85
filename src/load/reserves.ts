import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { Counters } from '../counters.ts';
import { PartylineError } from '../protocol/errors.ts';
import { type Resource, RESOURCES } from '../resources.ts';

/** Multiple of the reserve that must be free before new clients are admitted again. */
const FREE_AGAIN = 1.5;

/** Use and limit of a resource, in bytes or as a number. */
export type Usage = { used: number; limit: number };

/** A resource that can run out, and of which a reserve is kept from new clients. */
export type Supply = {
  resource: Resource;
  /** Name in the log. */
  name: string;
  /** Measures the use; undefined while there is no limit. It may throw when descriptors have run out. */
  measure: () => Usage | undefined;
  /** Returns the part of a limit that is kept from new clients. */
  reserveOf: (limit: number) => number;
  /** Called after each measurement with the amount that new clients may take; negative if part of the reserve is in use. */
  onFree?: (free: number) => void;
};

/** State of a resource: true if new clients are refused because of it, and its free share; undefined if it has no limit. */
export type ResourceState = { isShort: boolean; freeShare: number | undefined };

type Watched = Supply & { usage: Usage | undefined; isShort: boolean };

/**
 * Refuses new clients while only the reserve of a resource is left: connected clients need it to open rooms,
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

  /** @param faults number of faults that each resource has caused in this process */
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

  /** State of each resource at the last measurement. */
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

  /** Measures all resources. */
  sample(): void {
    for (const supply of this.#supplies) this.#look(supply);
    const nowMs = performance.now();
    const short = RESOURCES.filter((resource) => this.#isShortOf(resource, nowMs));
    for (const resource of RESOURCES) {
      const [is, was] = [short.includes(resource), this.#short.includes(resource)];
      if (is && !was)
        this.#log.warn(this.#figures(resource), `short of ${resource}: new clients are refused`);
      if (was && !is) this.#log.info(this.#figures(resource), `no longer short of ${resource}`);
    }
    this.#short = short;
    this.#faultsBefore = { ...this.#faults };
  }

  /** @throws {PartylineError} `overloaded` while only the reserve of a resource is left */
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
      // Reading a file takes a descriptor; the next measurement may find one.
    }
    if (!supply.usage) {
      supply.isShort = false;
      return;
    }
    const { used, limit } = supply.usage;
    const reserve = supply.reserveOf(limit);
    supply.isShort = limit - used < reserve * (supply.isShort ? FREE_AGAIN : 1);
    supply.onFree?.(limit - used - reserve);
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
