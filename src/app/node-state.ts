import type { Timings } from '../../config/timings.ts';
import { counters } from '../counters.ts';
import type { Metrics, MetricFamilies } from '../http/metrics.ts';
import type { Reserves } from '../load/reserves.ts';
import { describeNode } from '../operator/describe-node.ts';
import type { NodeDescription } from '../operator/schemas.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import { countWaitingJobs } from '../usage/usage-queue.ts';
import { readUsageWorkers } from '../usage/usage-workers.ts';
import { VERSION } from '../version.ts';
import type { Audio } from './open-audio.ts';
import type { Clients } from './open-clients.ts';
import type { Load } from './open-load.ts';
import type { Media } from './open-media.ts';
import type { Store } from './open-store.ts';
import type { UsageParts } from './open-usage.ts';
import type { ProcessesHealth } from './opening.ts';
import { CachedReading } from './cached-reading.ts';

type Parts = Store &
  Media & {
    clients: Clients;
    usage: UsageParts;
    audio: Audio;
    load: Load;
    reserves: Reserves;
    rooms: RoomRegistry;
    metrics: Metrics;
    health: ProcessesHealth;
  };

/** State of this process at a moment, for operators, health checks and metrics. */
export class NodeState {
  readonly #parts: Parts;
  readonly #redis: CachedReading<boolean>;
  readonly #timings: Timings;

  constructor(parts: Parts, timings: Timings) {
    this.#parts = parts;
    this.#timings = timings;
    // Questions about readiness need no key.
    const { scrapeEveryMs } = timings.load;
    this.#redis = new CachedReading(() => parts.redis.isAvailable(), scrapeEveryMs);
  }

  /** Names of the other processes of the group that hang. */
  get hung(): string[] {
    return this.#parts.health.hung;
  }

  /** True while neither draining nor load keeps new clients out. */
  get takesClients(): boolean {
    const { not_draining: isStaying, not_overloaded: hasRoom } = this.#readiness();
    return isStaying && hasRoom;
  }

  /** Returns the conditions under which the node admits clients: by name, true if it is met. */
  async readReadiness(): Promise<Record<string, boolean>> {
    return { redis: await this.#redis.read(), ...this.#readiness() };
  }

  describe(): NodeDescription {
    const { cluster, clients } = this.#parts;
    return describeNode({
      ...this.#read(),
      id: cluster.node,
      isDraining: clients.drain.isDraining,
      dropped: counters.dropped,
    });
  }

  async readMetrics(): Promise<MetricFamilies> {
    const { metrics, cluster, clients, health, load, audio, reserves, clock } = this.#parts;
    const backlog = await this.#readBacklog();
    return metrics.families({
      ...this.#read(),
      version: VERSION,
      isReady: backlog !== undefined && Object.values(this.#readiness()).every(Boolean),
      isDraining: clients.drain.isDraining,
      nodes: cluster.size,
      unreachableNodes: cluster.countUnreachable(),
      silentNodes: cluster.countSilent(),
      processes: health,
      counters,
      encoderComplexity: load.encoderSteps.complexity,
      mixThreads: audio.mixEngines.threads,
      resources: reserves.describe(),
      jitterBuffers: audio.mixEngines.depth,
      clock,
      backlog,
    });
  }

  #read() {
    const { clients, rooms, usage, cluster, load, pool } = this.#parts;
    return {
      sessions: clients.sessions.size,
      rooms: rooms.size,
      peers: usage.meter.countPeers(),
      keptPlaces: clients.places.size,
      pipes: cluster.countPipes(),
      relays: cluster.countRelays(),
      load: { level: load.monitor.level, ...load.monitor.latest },
      mediaWorkers: pool.describe(),
    };
  }

  #readiness() {
    const { pool, clients, load, reserves } = this.#parts;
    return {
      media_workers: pool.pids.length > 0,
      not_draining: !clients.drain.isDraining,
      not_overloaded: load.monitor.level !== 'overloaded' && !reserves.isShort,
    };
  }

  /**
   * Returns the work that waits for usage workers; undefined while Redis is disconnected or accepts no writes, so that the other
   * metrics can be read all the same.
   */
  async #readBacklog() {
    const { redis, clock, usage } = this.#parts;
    const ageMs = (sinceMs: number | undefined) =>
      sinceMs === undefined ? 0 : Math.max(0, clock.wallMs() - sinceMs);
    if (!(await this.#redis.read())) return undefined;
    try {
      const [{ minutes, oldestEndWallMs }, waitingJobs, waiting, workers] = await Promise.all([
        usage.store.countOpen(),
        countWaitingJobs(redis),
        usage.webhooks.count(),
        readUsageWorkers(redis, this.#timings.usage.workerDeadAfterMs),
      ]);
      return {
        openMinutes: minutes,
        oldestOpenMinuteMs: ageMs(oldestEndWallMs),
        waitingJobs,
        webhooks: { ...waiting, oldestMs: ageMs(waiting.oldestMs) },
        workers,
      };
    } catch {
      // The failed command has been logged.
      return undefined;
    }
  }
}
