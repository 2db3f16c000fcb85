import { randomBytes } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { departedKey, nodeMark, NODES, ownedKeysKey } from '../store/keys.ts';
import { Liveness } from '../store/liveness.ts';
import type { Redis } from '../store/redis.ts';

/** Events about other nodes, and about this one. */
export type NodesEvents = {
  onGone: (node: string) => void;
  /** Called when Redis has lost the entries of this node, which must be written again. */
  onForgotten: () => void;
  /** Called when Redis answers this node again, after it did not or refused. */
  onAnswered: () => void;
};

/**
 * Time for which the note of a departure outlives the node's entries, in multiples of the silence after which a node is dead: nodes that were cut
 * off read it later.
 */
const DEPARTURE_NOTED_FOR = 10;

/** The living nodes. Each writes its heartbeat into Redis; a node that finds another one dead removes its entries there. */
export class Nodes {
  /** This node; a new id at each start. */
  readonly id = randomBytes(8).toString('hex');
  readonly #redis: Redis;
  readonly #log: FastifyBaseLogger;
  readonly #events: NodesEvents;
  readonly #timings: Timings['nodes'];
  readonly #liveness: Liveness;
  /** Last heartbeat of each node that left in order but still has entries in Redis. */
  readonly #departed = new Map<string, { heartbeat: string; untilMs: number }>();
  /** Last heartbeat of each node that has not departed but whose heartbeat lies in the future. */
  readonly #ahead = new Map<string, string>();
  #living = new Set([this.id]);
  #timer: NodeJS.Timeout | undefined;
  /** True from the time when Redis lacks this node's mark until a heartbeat that sets it is answered. */
  #isForgotten = false;
  #isAnswered = true;

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
    this.#liveness = new Liveness(timings.deadAfterMs);
  }

  /** Writes the first heartbeat. @throws {PartylineError} `overloaded` if Redis does not answer */
  static async open(
    redis: Redis,
    log: FastifyBaseLogger,
    events: NodesEvents,
    timings: Timings['nodes'],
  ): Promise<Nodes> {
    const nodes = new Nodes(redis, log, events, timings);
    await nodes.#beat(true);
    nodes.#beatLater();
    return nodes;
  }

  /** Number of nodes that lived at this node's last heartbeat, itself included. */
  get size(): number {
    return this.#living.size;
  }

  /** Returns the living nodes, including this one. @throws {PartylineError} `overloaded` */
  async list(): Promise<Set<string>> {
    const known = await this.#redis.run((client) => client.zRange(NODES, 0, -1));
    return new Set([this.id, ...known.filter((node) => !this.#departed.has(node))]);
  }

  /**
   * Ends the heartbeat, and notes in Redis that this node left in order. Its entries in Redis stay for `lastsMs`; 0 removes them at once. A failure
   * is logged.
   */
  async close(lastsMs = 0): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const { deadAfterMs } = this.#timings;
    const aheadMs = String(lastsMs - deadAfterMs);
    const notedMs = lastsMs + DEPARTURE_NOTED_FOR * deadAfterMs;
    try {
      await this.#redis.run(async (client) => {
        await client.set(departedKey(this.id), '', { expiration: { type: 'PX', value: notedMs } });
        return lastsMs > 0
          ? client.departNode({ keys: [NODES], arguments: [this.id, aheadMs] })
          : client.removeNode({ keys: [NODES, ownedKeysKey(this.id)], arguments: [this.id] });
      });
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
        () => {
          if (this.#timer) this.#beatLater();
          if (this.#isAnswered) return;
          this.#isAnswered = true;
          this.#events.onAnswered();
        },
        () => {
          // The Redis client has logged that Redis is disconnected.
          this.#isAnswered = false;
          this.#liveness.restart();
          if (this.#timer) this.#beatLater();
        },
      );
    }, this.#timings.beatEveryMs);
  }

  async #beat(joins = this.#isForgotten): Promise<void> {
    const keys = [NODES, ownedKeysKey(this.id), nodeMark(this.id)];
    const options = { keys, arguments: [this.id, joins ? 'join' : ''] };
    const reply = await this.#redis.run((client) => client.beatNode(options));
    const [isKnown, flat] = reply as [number, string[]];
    if (isKnown === 0) {
      // An answer may be lost: each later heartbeat sets the mark again until one is answered.
      this.#isForgotten = true;
      return this.#beat();
    }
    const heartbeats = new Map<string, string>();
    for (let i = 0; i < flat.length; i += 2) heartbeats.set(flat[i]!, flat[i + 1]!);
    // Redis wrote its own time as this node's heartbeat.
    const wallMs = Number(heartbeats.get(this.id));
    this.#liveness.see(heartbeats, wallMs);
    for (const [node, heartbeat] of heartbeats) {
      // A node that departs dates its last heartbeat ahead.
      const aheadMs = Number(heartbeat) - wallMs;
      if (aheadMs > 0 && (await this.#hasDeparted(node, heartbeat))) {
        const known = this.#departed.get(node);
        const untilMs =
          known?.heartbeat === heartbeat ? known.untilMs : performance.now() + aheadMs;
        this.#departed.set(node, { heartbeat, untilMs });
        // If Redis's clock steps back, the heartbeat stays in the future for too long.
        if (performance.now() < untilMs) this.#liveness.renew(node);
      } else if (this.#departed.get(node)?.heartbeat !== heartbeat) {
        this.#departed.delete(node);
      }
    }
    this.#living = new Set([...heartbeats.keys()].filter((node) => !this.#departed.has(node)));
    // First, because removing others may fail.
    if (this.#isForgotten) this.#events.onForgotten();
    this.#isForgotten = false;
    for (const [node, heartbeat] of this.#liveness.dead()) await this.#reap(node, heartbeat);
  }

  /** Returns true if a node left in order. A heartbeat in the future alone does not prove it: Redis's clock may have stepped back. */
  async #hasDeparted(node: string, heartbeat: string): Promise<boolean> {
    if (this.#departed.get(node)?.heartbeat === heartbeat) return true;
    if (this.#ahead.get(node) === heartbeat) return false;
    const isNoted = await this.#redis.run((client) => client.exists(departedKey(node)));
    if (isNoted === 0) this.#ahead.set(node, heartbeat);
    return isNoted === 1;
  }

  async #reap(node: string, heartbeat: string): Promise<void> {
    const keys = [NODES, ownedKeysKey(node), departedKey(node)];
    const options = { keys, arguments: [node, heartbeat] };
    const reaped = await this.#redis.run((client) => client.reapNode(options));
    if (reaped === 0) return;
    if (reaped === 2) this.#log.info({ node }, 'node has left');
    else this.#log.warn({ node }, 'node died');
    this.#liveness.forget(node);
    this.#departed.delete(node);
    this.#ahead.delete(node);
    this.#events.onGone(node);
  }
}
