import type { FastifyInstance } from 'fastify';
import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import { collectProcessMetrics } from '../process-metrics.ts';
import { AUDIO_METRICS } from './audio-metrics.ts';
import { LOAD_METRICS } from './load-metrics.ts';
import type { Definition, Figure, Snapshot } from './metric-snapshot.ts';
import { STATE_METRICS } from './state-metrics.ts';

/** Metrics as plain data, which can be sent from process to process. */
export type MetricFamilies = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

/**
 * Registers `GET /metrics`. A scrape costs every process of the group, so requests within an interval get the same answer.
 * @param gather returns the metrics of this process, and of those that share its port
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
  // Metrics of several processes differ in a label, so that none are added up.
  const registry = AggregatorRegistry.aggregate(
    processes.map((families) => families.map((family) => ({ ...family, aggregator: 'sum' }))),
  );
  return { contentType: registry.contentType, text: await registry.metrics() };
}

/** Metrics of this process for Prometheus (docs/operations/watch.md). No label contains an account or a peer. */
export class Metrics {
  readonly #registry = new Registry();
  readonly #admissions = this.#counter('admissions_total', 'Clients that were admitted');
  readonly #refusals = this.#counter('refusals_total', 'Clients that were refused', ['reason']);
  readonly #ends = this.#counter('sessions_ended_total', 'Sessions that have ended', ['reason']);
  /** Sets one metric each, at a scrape. */
  readonly #setters: ((snapshot: Snapshot) => void)[];

  /** @param process distinguishes its metrics from those of other processes on the same port, if there are any */
  constructor(process?: string) {
    const register = this.#registry;
    if (process !== undefined) register.setDefaultLabels({ process });
    collectProcessMetrics(register);
    const definitions = [...STATE_METRICS, ...AUDIO_METRICS, ...LOAD_METRICS];
    this.#setters = definitions.map((definition) => this.#define(definition));
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

  /** Returns the metrics of a moment. */
  families(snapshot: Snapshot): Promise<MetricFamilies> {
    for (const set of this.#setters) set(snapshot);
    return this.#registry.getMetricsAsJSON();
  }

  #counter(name: string, help: string, labelNames: string[] = []): Counter {
    const registers = [this.#registry];
    return new Counter({ name: `partyline_${name}`, help, labelNames, registers });
  }

  #gauge(name: string, help: string, labelNames: string[]): Gauge {
    const registers = [this.#registry];
    return new Gauge({ name: `partyline_${name}`, help, labelNames, registers });
  }

  #define({ kind, name, help, read, label }: Definition): (snapshot: Snapshot) => void {
    const labelNames = label ? [label] : [];
    if (kind === 'count') {
      const counter = this.#counter(name, help, labelNames);
      return (snapshot) => {
        counter.reset();
        for (const [labels, value] of labelled(read(snapshot), label)) counter.inc(labels, value);
      };
    }
    const gauge = this.#gauge(name, help, labelNames);
    return (snapshot) => {
      const figures = labelled(read(snapshot), label);
      if (label) gauge.reset();
      else gauge.remove();
      for (const [labels, value] of figures) gauge.set(labels, value);
    };
  }
}

/** Returns each number of a figure with its labels. */
function labelled(figure: Figure, label = ''): [Record<string, string>, number][] {
  if (figure === undefined) return [];
  if (typeof figure === 'number') return [[{}, figure]];
  return Object.entries(figure).map(([value, number]) => [{ [label]: value }, number]);
}
