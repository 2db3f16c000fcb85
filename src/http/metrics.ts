import type { FastifyInstance } from 'fastify';
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { PeerKind } from '../protocol/messages.ts';

/** What is there at the moment of a scrape. */
export type Snapshot = {
  sessions: number;
  rooms: number;
  peers: Record<PeerKind, number>;
  mixThreads: number;
  mediaWorkers: number;
  /** CPU that the media workers have used since they started, in seconds. */
  mediaWorkerCpuSeconds: number;
  /** Minutes of accounts that wait to be closed. */
  openMinutes: number;
  /** Rooms that have events which wait to be sent, and events that were given up. */
  webhooks: { waiting: number; dropped: number };
};

/** The figures of this node in Prometheus' format. No label tells one account or peer from another. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #admissions = this.#counter('admissions_total', 'Clients that were let in');
  readonly #refusals = this.#counter('refusals_total', 'Clients that were refused', ['reason']);
  readonly #ends = this.#counter('sessions_ended_total', 'Sessions that have ended', ['reason']);
  readonly #droppedFrames = this.#counter(
    'dropped_frames_total',
    'Binary frames that were not sent, because the client did not read',
  );

  readonly #gauges: [Gauge, (of: Snapshot) => number][] = [];

  constructor() {
    // It wakes the process so often, also when nobody is there.
    const eventLoopMonitoringPrecision = 50;
    collectDefaultMetrics({
      register: this.#registry,
      prefix: 'partyline_',
      eventLoopMonitoringPrecision,
    });
    const gauge = (name: string, help: string, value: (of: Snapshot) => number) => {
      const registers = [this.#registry];
      this.#gauges.push([new Gauge({ name: `partyline_${name}`, help, registers }), value]);
    };
    gauge('sessions', 'Clients that are connected', ({ sessions }) => sessions);
    gauge('rooms', 'Rooms that are open', ({ rooms }) => rooms);
    gauge('websocket_peers', 'Legacy clients in rooms', ({ peers }) => peers.websocket);
    gauge('webrtc_peers', 'Browsers in rooms', ({ peers }) => peers.webrtc);
    gauge('mix_threads', 'Mixing threads that run', ({ mixThreads }) => mixThreads);
    gauge('media_workers', 'Media workers that run', ({ mediaWorkers }) => mediaWorkers);
    gauge(
      'media_worker_cpu_seconds',
      'CPU that the media workers which run have used',
      ({ mediaWorkerCpuSeconds }) => mediaWorkerCpuSeconds,
    );
    gauge('open_minutes', 'Minutes that wait to be closed', ({ openMinutes }) => openMinutes);
    gauge(
      'webhook_rooms_waiting',
      'Rooms whose events wait to be sent',
      ({ webhooks }) => webhooks.waiting,
    );
    gauge(
      'webhook_events_dropped',
      'Events that were given up, by all nodes',
      ({ webhooks }) => webhooks.dropped,
    );
  }

  admitted(): void {
    this.#admissions.inc();
  }

  refused(reason: string): void {
    this.#refusals.inc({ reason });
  }

  ended(reason: string, droppedFrames: number): void {
    this.#ends.inc({ reason });
    this.#droppedFrames.inc(droppedFrames);
  }

  /** `GET /metrics`. */
  register(server: FastifyInstance, read: () => Promise<Snapshot>): void {
    server.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
      const snapshot = await read();
      for (const [gauge, valueOf] of this.#gauges) gauge.set(valueOf(snapshot));
      return reply.type(this.#registry.contentType).send(await this.#registry.metrics());
    });
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.#registry];
    return new Counter({ name: `partyline_${name}`, help, labelNames, registers });
  }
}
