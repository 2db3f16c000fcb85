import type { FastifyInstance } from 'fastify';
import { AggregatorRegistry, collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client';
import type { Counts } from '../counts.ts';
import { LOAD_LEVELS, type LoadLevel, type LoadSample } from '../load/load-level.ts';
import type { ResourceState } from '../load/reserves.ts';
import type { PeerKind } from '../protocol/messages.ts';
import type { Resource } from '../resources.ts';

/** What waits for the workers, of all nodes. */
type Backlog = {
  /** Minutes of accounts that wait to be closed, and jobs that do it. */
  openMinutes: number;
  /** Since the oldest of them ended; 0 if none waits. */
  oldestOpenMinuteMs: number;
  waitingJobs: number;
  /** Webhook events that wait to be sent, the time since the oldest of them happened, and events that were given up. */
  webhooks: { rooms: number; events: number; oldestMs: number; dropped: number };
  workers: { alive: number; maxOffsetMs: number };
};

/** What is there at the moment of a scrape. */
export type Snapshot = {
  /** Of Partyline. */
  version: string;
  sessions: number;
  rooms: number;
  peers: Record<PeerKind, number>;
  keptPlaces: number;
  /** It takes new clients, as `/readyz` says. */
  isReady: boolean;
  /** That live, as this node sees it. */
  nodes: number;
  /** Of this node: names of those that hang, and how many of its gateways died. */
  processes: { readonly hung: string[]; readonly deaths: number };
  /** To other nodes: ends that are connected. */
  pipes: { ends: number };
  /** Connections to other nodes for messages of unknown formats. */
  relays: number;
  counts: Counts;
  load: LoadSample & { level: LoadLevel };
  encoderComplexity: number;
  resources: Record<Resource, ResourceState>;
  mixThreads: number;
  /** What the jitter buffers of those who are mixed hold. */
  jitterBuffers: { speakers: number; sumMs: number; maxMs: number };
  mediaWorkers: { state: 'running' | 'replacing'; restarts: number }[];
  /** Redis's clock: how far this machine's own is ahead of it, and how often it has jumped. */
  clock: { offsetMs: number; jumps: number };
  /** What waits for the workers; undefined if Redis is away. */
  backlog: Backlog | undefined;
};

/** One figure; or one for each value of a label; or none, if it is not known. */
type Figure = number | Record<string, number> | undefined;

/** prom-client's own measure of the event loop cannot be left out: it wakes it as often as this, and is taken out again. */
const HOUR_MS = 3_600_000;
const SAMPLES_PER_S = 48_000;

/** Figures as plain data, which can go from process to process. */
export type MetricFamilies = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * `GET /metrics`. Every process of the node pays for the figures, so requests within an interval get the same ones.
 * @param gather returns the figures of this process, and of those that share its port
 * @param everyMs the interval
 */
export function registerMetrics(
  server: FastifyInstance,
  gather: () => Promise<MetricFamilies[]>,
  everyMs: number,
): void {
  let last: { atMs: number; page: ReturnType<typeof writePage> } | undefined;
  server.get('/metrics', { schema: { hide: true } }, async (_request, reply) => {
    const nowMs = performance.now();
    if (!last || nowMs - last.atMs >= everyMs) last = { atMs: nowMs, page: writePage(gather) };
    const { contentType, text } = await last.page;
    return reply.type(contentType).send(text);
  });
}

async function writePage(gather: () => Promise<MetricFamilies[]>) {
  const processes = await gather();
  // Figures of several processes differ in a label, so that none are added up.
  const registry = AggregatorRegistry.aggregate(
    processes.map((families) => families.map((family) => ({ ...family, aggregator: 'sum' }))),
  );
  return { contentType: registry.contentType, text: await registry.metrics() };
}

/** The figures of this process in Prometheus' format (docs/operations.md). No label tells one account or peer from another. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #admissions = this.#counter('admissions_total', 'Clients that were let in');
  readonly #refusals = this.#counter('refusals_total', 'Clients that were refused', ['reason']);
  readonly #ends = this.#counter('sessions_ended_total', 'Sessions that have ended', ['reason']);
  /** What is set at each scrape. */
  readonly #scraped: ((snapshot: Snapshot) => void)[] = [];

  /** @param process tells its figures from those of others on the same port, if there are any */
  constructor(process?: string) {
    const register = this.#registry;
    if (process !== undefined) register.setDefaultLabels({ process });
    collectDefaultMetrics({
      register,
      prefix: 'partyline_',
      eventLoopMonitoringPrecision: HOUR_MS,
    });
    const lag = 'partyline_nodejs_eventloop_lag_';
    for (const { name } of register.getMetricsAsArray()) {
      if (name.startsWith(lag)) register.removeSingleMetric(name);
    }
    this.#addState();
    this.#addAudio();
    this.#addLoad();
    this.#addResources();
  }

  admitted(): void {
    this.#admissions.inc();
  }

  refused(reason: string): void {
    this.#refusals.inc({ reason });
  }

  ended(reason: string): void {
    this.#ends.inc({ reason });
  }

  /** The figures now. */
  families(snapshot: Snapshot): Promise<MetricFamilies> {
    for (const set of this.#scraped) set(snapshot);
    return this.#registry.getMetricsAsJSON();
  }

  #addState(): void {
    this.#gauge(
      'build_info',
      'Always 1; tells which version runs',
      ({ version }) => ({ [version]: 1 }),
      'version',
    );
    this.#gauge('sessions', 'Clients that are connected', ({ sessions }) => sessions);
    this.#count(
      'connections_not_accepted_total',
      'Connections that were closed as they came, for lack of file descriptors',
      ({ counts }) => counts.connectionsNotAccepted,
    );
    this.#gauge('rooms', 'Rooms that are open', ({ rooms }) => rooms);
    this.#gauge('websocket_peers', 'Legacy clients in rooms', ({ peers }) => peers.websocket);
    this.#gauge('webrtc_peers', 'Browsers in rooms', ({ peers }) => peers.webrtc);
    this.#gauge(
      'kept_places',
      'Peers whose connection is lost and whose place is kept',
      ({ keptPlaces }) => keptPlaces,
    );
    this.#gauge('ready', 'Whether the node takes new clients', ({ isReady }) => (isReady ? 1 : 0));
    this.#count(
      'seal_faults_total',
      'Messages of other nodes whose seal was wrong',
      ({ counts }) => counts.sealFaults,
    );
    this.#count(
      'pipe_faults_total',
      'Pipes to other nodes that failed or were cut',
      ({ counts }) => counts.pipeFaults,
    );
    this.#gauge('nodes', 'Nodes that live, as this one sees it', ({ nodes }) => nodes);
    this.#gauge(
      'hung_processes',
      'Other processes of the node that hang',
      ({ processes }) => processes.hung.length,
    );
    this.#count(
      'gateway_deaths_total',
      'Gateway processes of the node that died, or hung and were killed',
      ({ processes }) => processes.deaths,
    );
    this.#gauge(
      'pipes',
      'Ends of pipes to other nodes that are connected',
      ({ pipes }) => pipes.ends,
    );
    this.#gauge(
      'relays',
      'Connections to other nodes for messages of unknown formats',
      ({ relays }) => relays,
    );
    this.#count(
      'relayed_messages_total',
      'Messages of unknown formats from (in) and to (out) other nodes',
      ({ counts }) => counts.relayed,
      'direction',
    );
    this.#count(
      'relay_faults_total',
      'Connections to other nodes for such messages that failed or were cut',
      ({ counts }) => counts.relayFaults,
    );
    this.#count(
      'relay_refusals_total',
      'Connections to the port for such messages that did not have the key',
      ({ counts }) => counts.relayRefusals,
    );
    this.#gauge(
      'media_workers',
      'Media workers that run',
      ({ mediaWorkers }) => mediaWorkers.filter(({ state }) => state === 'running').length,
    );
    this.#count(
      'media_worker_restarts_total',
      'Media workers that were started in place of others',
      ({ mediaWorkers }) => mediaWorkers.reduce((sum, { restarts }) => sum + restarts, 0),
    );
    this.#gauge('redis_up', 'Whether Redis answers and takes writes', ({ backlog }) =>
      backlog ? 1 : 0,
    );
    this.#gauge(
      'open_minutes',
      'Minutes that wait to be closed',
      ({ backlog }) => backlog?.openMinutes,
    );
    this.#gauge(
      'oldest_open_minute_age_seconds',
      'Time since the oldest minute that waits to be closed ended',
      ({ backlog }) => backlog && backlog.oldestOpenMinuteMs / 1000,
    );
    this.#gauge(
      'usage_workers',
      'Usage workers that are alive',
      ({ backlog }) => backlog?.workers.alive,
    );
    this.#gauge(
      'usage_worker_clock_offset_seconds',
      "Most by which a usage worker's own clock differs from Redis's",
      ({ backlog }) => backlog && backlog.workers.maxOffsetMs / 1000,
    );
    this.#gauge(
      'clock_offset_seconds',
      "How far this machine's clock is ahead of Redis's",
      ({ clock }) => clock.offsetMs / 1000,
    );
    this.#count(
      'redis_clock_jumps_total',
      "Times that Redis's clock has jumped",
      ({ clock }) => clock.jumps,
    );
    this.#gauge(
      'usage_jobs_waiting',
      'Jobs that wait for a usage worker',
      ({ backlog }) => backlog?.waitingJobs,
    );
    this.#gauge(
      'webhook_rooms_waiting',
      'Rooms whose events wait to be sent',
      ({ backlog }) => backlog?.webhooks.rooms,
    );
    this.#gauge(
      'webhook_events_dropped',
      'Events that were given up, by all nodes',
      ({ backlog }) => backlog?.webhooks.dropped,
    );
    this.#gauge(
      'webhook_events_waiting',
      'Events that wait to be sent',
      ({ backlog }) => backlog?.webhooks.events,
    );
    this.#gauge(
      'webhook_oldest_event_age_seconds',
      'Time since the oldest event that waits happened',
      ({ backlog }) => backlog && backlog.webhooks.oldestMs / 1000,
    );
  }

  #addAudio(): void {
    this.#count(
      'frames_total',
      'Binary frames from (in) and to (out) clients',
      ({ counts }) => ({ in: counts.framesIn, out: counts.framesOut }),
      'direction',
    );
    this.#count(
      'router_packets_total',
      "RTP packets from (in) and to (out) the rooms' routers",
      ({ counts }) => ({ in: counts.routerPacketsIn, out: counts.routerPacketsOut }),
      'direction',
    );
    this.#count(
      'dropped_packets_total',
      'Packets and frames that nobody hears',
      ({ counts }) => counts.dropped,
      'reason',
    );
    this.#count(
      'concealed_seconds_total',
      'Sound that was made up for what got lost',
      ({ counts }) => counts.concealedSamples / SAMPLES_PER_S,
    );
    this.#gauge(
      'mixed_speakers',
      'Speakers who are mixed now',
      ({ jitterBuffers }) => jitterBuffers.speakers,
    );
    this.#gauge(
      'jitter_buffer_seconds',
      'What the jitter buffers of those who are mixed hold',
      ({ jitterBuffers: { speakers, sumMs, maxMs } }) => ({
        mean: sumMs / Math.max(1, speakers) / 1000,
        max: maxMs / 1000,
      }),
      'stat',
    );
    this.#count(
      'mix_ticks_total',
      'Times 20 ms of a room were mixed, in the event loop (inline) or a thread',
      ({ counts: { mixing } }) => ({ inline: mixing.inline.ticks, thread: mixing.thread.ticks }),
      'place',
    );
    this.#count(
      'mix_seconds_total',
      'What that took',
      ({ counts: { mixing } }) => ({
        inline: mixing.inline.costMs / 1000,
        thread: mixing.thread.costMs / 1000,
      }),
      'place',
    );
    this.#gauge('mix_threads', 'Mixing threads that run', ({ mixThreads }) => mixThreads);
  }

  #addLoad(): void {
    this.#gauge('load_level', '0 normal, 1 strained, 2 overloaded', ({ load }) =>
      LOAD_LEVELS.indexOf(load.level),
    );
    this.#gauge(
      'event_loop_delay_seconds',
      'How late the event loop was in the last second',
      ({ load: { loopDelayMs } }) => ({
        '0.5': loopDelayMs.p50 / 1000,
        '0.99': loopDelayMs.p99 / 1000,
      }),
      'quantile',
    );
    this.#gauge(
      'cpu_ratio',
      'CPU in the last second: of this process, of all cores; of the event loop, of one',
      ({ load: { cpu } }) => ({ process: cpu.process, event_loop: cpu.eventLoop }),
      'of',
    );
    this.#gauge(
      'media_worker_cpu_ratio',
      'CPU of each media worker in the last second, of one core',
      ({ load: { cpu } }) => Object.fromEntries(cpu.mediaWorkers.entries()),
      'worker',
    );
    this.#gauge(
      'encoder_complexity',
      'Complexity of the Opus encoders now',
      ({ encoderComplexity }) => encoderComplexity,
    );
  }

  #addResources(): void {
    this.#gauge(
      'short',
      'Whether newcomers are refused because no more than a reserve of a resource is left',
      ({ resources }) => mapValues(resources, ({ isShort }) => (isShort ? 1 : 0)),
      'resource',
    );
    this.#gauge(
      'resource_free_ratio',
      'Share of a resource that is free, where something bounds it',
      ({ resources }) => mapValues(resources, ({ freeShare }) => freeShare),
      'resource',
    );
    this.#count(
      'shortages_total',
      'Faults that said that a resource had run out',
      ({ counts }) => counts.shortages,
      'resource',
    );
    this.#count(
      'log_lines_lost_total',
      'Lines of the log that could not be written',
      ({ counts }) => counts.logLinesLost,
    );
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.#registry];
    return new Counter({ name: `partyline_${name}`, help, labelNames, registers });
  }

  /** A count that is kept elsewhere. */
  #count(name: string, help: string, read: (of: Snapshot) => Figure, label?: string): void {
    const counter = this.#counter(name, help, label ? [label] : []);
    this.#scraped.push((snapshot) => {
      counter.reset();
      for (const [labels, value] of labelled(read(snapshot), label)) counter.inc(labels, value);
    });
  }

  #gauge(name: string, help: string, read: (of: Snapshot) => Figure, label?: string): void {
    const registers = [this.#registry];
    const labelNames = label ? [label] : [];
    const gauge = new Gauge({ name: `partyline_${name}`, help, labelNames, registers });
    this.#scraped.push((snapshot) => {
      const figures = labelled(read(snapshot), label);
      if (label) gauge.reset();
      else gauge.remove();
      for (const [labels, value] of figures) gauge.set(labels, value);
    });
  }
}

/** Those of some values that are known. */
function mapValues<T>(
  of: Record<string, T>,
  read: (value: T) => number | undefined,
): Record<string, number> {
  const entries = Object.entries(of).map(([name, value]) => [name, read(value)] as const);
  return Object.fromEntries(
    entries.filter((entry): entry is [string, number] => entry[1] !== undefined),
  );
}

/** Each figure with its labels. */
function labelled(figure: Figure, label = ''): [Record<string, string>, number][] {
  if (figure === undefined) return [];
  if (typeof figure === 'number') return [[{}, figure]];
  return Object.entries(figure).map(([value, number]) => [{ [label]: value }, number]);
}
