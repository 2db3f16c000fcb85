import { collectDefaultMetrics, type Registry } from 'prom-client';

const PREFIX = 'partyline_';
/**
 * Resolution of prom-client's own measurement of the event loop, ms: it cannot be disabled, so it runs
 * rarely, and its metrics are removed.
 */
const HOUR_MS = 3_600_000;

/** Adds prom-client's metrics of this process to a registry, without those of the event loop. */
export function collectProcessMetrics(register: Registry): void {
  collectDefaultMetrics({ register, prefix: PREFIX, eventLoopMonitoringPrecision: HOUR_MS });
  for (const { name } of register.getMetricsAsArray()) {
    if (name.startsWith(`${PREFIX}nodejs_eventloop_lag_`)) register.removeSingleMetric(name);
  }
}
