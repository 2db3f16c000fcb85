import { collectDefaultMetrics, type Registry } from 'prom-client';

const PREFIX = 'partyline_';
/**
 * Resolution of prom-client's own measurement of the event loop, ms: it cannot be disabled, so it runs
 * rarely, and its metrics are removed.
 */
const HOUR_MS = 3_600_000;

/**
 * Beginnings of the names of metrics that are left out. Handles and requests are counted by functions of Node that end the process
 * when one of them is just being released; `nodejs_active_resources` counts the same.
 */
const LEFT_OUT = ['eventloop_lag_', 'active_handles', 'active_requests'];

/** Adds prom-client's metrics of this process to a registry, without those of the event loop, handles and requests. */
export function collectProcessMetrics(register: Registry): void {
  collectDefaultMetrics({ register, prefix: PREFIX, eventLoopMonitoringPrecision: HOUR_MS });
  for (const { name } of register.getMetricsAsArray()) {
    const isLeftOut = LEFT_OUT.some((begin) => name.startsWith(`${PREFIX}nodejs_${begin}`));
    if (isLeftOut) register.removeSingleMetric(name);
  }
}
