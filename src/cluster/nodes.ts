import { randomBytes } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { NODES, ownedKeysKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

/** Events about other nodes, and about this one. */
export type NodesEvents = {
  onDead: (node: string) => void;
  /** The others may have taken this node for dead, or Redis has lost its memory: all must be written again. */
  onForgotten: () => void;
};

type Seen = {
  heartbeat: string;
  sinceMs: number;
  /** It has gone in peace: what it left in Redis is all that is there of it. */
  hasDeparted: boolean;
};

/** Which nodes live. Each has its heartbeat in Redis; whoever finds one dead clears up after it. */
export class Nodes {
  /** This node: another one at each start. */
  readonly id = randomBytes(8).toString('hex');
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #events: NodesEvents;
  readonly #timings: Timings['nodes'];
  readonly #seen = new Map<string, Seen>();
  #living = new Set([this.id]);
  #timer: NodeJS.Timeout | undefined;
  #isFirst = true;

  private constructor(
    redis: Redis,
    log: FastifyBaseLogger,
    events: NodesEvents,
    timings: Timings['nodes'],
  ) {
    this.#redis = redis;
    this.#log = log;
    this.#events = events;
    this.#timings = timings;
  }

  static async open(
    redis: Redis,
    log: FastifyBaseLogger,
    events: NodesEvents,
    timings: Timings['nodes'],
  ): Promise<Nodes> {
    const nodes = new Nodes(redis, log, events, timings);
    await nodes.#beat();
    nodes.#beatLater();
    return nodes;
  }

  /** How many lived at the last heartbeat of this node, itself among them. */
  get size(): number {
    return this.#living.size;
  }

  /** Returns the living nodes, including this one. @throws {PartylineError} `overloaded` */
  async list(): Promise<Set<string>> {
    const known = await this.#redis.run((client) => client.zRange(NODES, 0, -1));
    return new Set([this.id, ...known.filter((node) => !this.#seen.get(node)?.hasDeparted)]);
  }

  /**
   * Ends the heartbeat. The entries of this node in Redis stay for `lastsMs`, as if it lived; at 0 they are removed
   * at once.
   */
  async close(lastsMs = 0): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const aheadMs = String(lastsMs - this.#timings.deadAfterMs);
    try {
      await this.#redis.run((client) =>
        lastsMs > 0
          ? client.departNode({ keys: [NODES], arguments: [this.id, aheadMs] })
          : client.removeNode({ keys: [NODES, ownedKeysKey(this.id)], arguments: [this.id] }),
      );
    } catch (fault) {
      this.#log.warn(
        { err: fault },
        'departure not announced; other nodes will notice by the heartbeat',
      );
    }
  }

  #beatLater(): void {
    this.#timer = setTimeout(() => {
      this.#beat().then(
        () => this.#timer && this.#beatLater(),
        () => {
          // Redis is away, which has been logged. While nobody's heartbeat can be seen, nobody is dead.
          for (const seen of this.#seen.values()) seen.sinceMs = performance.now();
          if (this.#timer) this.#beatLater();
        },
      );
    }, this.#timings.beatEveryMs);
  }

  async #beat(): Promise<void> {
    const options = { keys: [NODES], arguments: [this.id] };
    const reply = await this.#redis.run((client) => client.beatNode(options));
    const [isNew, flat] = reply as [number, string[]];
    const nowMs = performance.now();
    const heartbeats = new Map<string, string>();
    for (let i = 0; i < flat.length; i += 2) heartbeats.set(flat[i]!, flat[i + 1]!);
    const ownHeartbeat = Number(heartbeats.get(this.id));
    for (const [node, heartbeat] of heartbeats) {
      const before = this.#seen.get(node);
      // One that has departed in peace left a heartbeat that is yet to come.
      const isAhead = Number(heartbeat) > ownHeartbeat;
      if (before?.heartbeat === heartbeat && !isAhead) continue;
      const hasDeparted = isAhead || before?.hasDeparted === true;
      this.#seen.set(node, { heartbeat, sinceMs: nowMs, hasDeparted });
    }
    this.#living = new Set(
      [...heartbeats.keys()].filter((node) => !this.#seen.get(node)?.hasDeparted),
    );
    for (const [node, { heartbeat, sinceMs }] of this.#seen) {
      if (nowMs - sinceMs >= this.#timings.deadAfterMs) await this.#reap(node, heartbeat);
    }
    if (isNew === 1 && !this.#isFirst) this.#events.onForgotten();
    this.#isFirst = false;
  }

  async #reap(node: string, heartbeat: string): Promise<void> {
    const options = { keys: [NODES, ownedKeysKey(node)], arguments: [node, heartbeat] };
    const isDead = await this.#redis.run((client) => client.reapNode(options));
    if (isDead !== 1) return;
    this.#log.warn({ node }, 'node died');
    this.#seen.delete(node);
    this.#events.onDead(node);
  }
}
