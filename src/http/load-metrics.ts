import { LOAD_LEVELS } from '../load/load-level.ts';
import { count, type Definition, gauge } from './metric-snapshot.ts';

/** Metrics of load and of resources that can run out. */
export const LOAD_METRICS: Definition[] = [
  gauge('load_level', '0 normal, 1 strained, 2 overloaded', ({ load }) =>
    LOAD_LEVELS.indexOf(load.level),
  ),
  gauge(
    'event_loop_delay_seconds',
    'Delay of the event loop in the last second',
    ({ load: { loopDelayMs } }) => ({
      '0.5': loopDelayMs.p50 / 1000,
      '0.99': loopDelayMs.p99 / 1000,
    }),
    'quantile',
  ),
  gauge(
    'cpu_ratio',
    'CPU in the last second: of this process, of all cores; of the event loop and of the decoder thread, of one',
    ({ load: { cpu } }) => ({
      process: cpu.process,
      event_loop: cpu.eventLoop,
      decoder: cpu.decoder,
    }),
    'of',
  ),
  gauge(
    'media_worker_cpu_ratio',
    'CPU of each media worker in the last second, of one core',
    ({ load: { cpu } }) => Object.fromEntries(cpu.mediaWorkers.entries()),
    'worker',
  ),
  gauge(
    'mix_thread_ratio',
    'Time that a tick takes in each mixing thread, of its 20 ms; 0 while the thread does not run',
    ({ load: { cpu } }) => Object.fromEntries(cpu.mixThreads.entries()),
    'thread',
  ),
  gauge(
    'encoder_complexity',
    'Complexity of the Opus encoders now',
    ({ encoderComplexity }) => encoderComplexity,
  ),
  gauge(
    'short',
    'Whether new clients are refused because only a reserve of a resource is left',
    ({ resources }) => mapValues(resources, ({ isShort }) => (isShort ? 1 : 0)),
    'resource',
  ),
  gauge(
    'resource_free_ratio',
    'Share of a limited resource that is free',
    ({ resources }) => mapValues(resources, ({ freeShare }) => freeShare),
    'resource',
  ),
  count(
    'shortages_total',
    'Faults caused by a resource that had run out',
    ({ counters }) => counters.shortages,
    'resource',
  ),
  count(
    'transports_cut_total',
    'Transports of WebRTC that were closed because their client sent too much, or did not read, while the memory of the media worker grew',
    ({ counters }) => counters.transportsCut,
  ),
  count(
    'log_lines_lost_total',
    'Lines of the log that could not be written',
    ({ counters }) => counters.logLinesLost,
  ),
];

/** Returns one number of each value, without unknown numbers. */
function mapValues<T>(
  of: Record<string, T>,
  read: (value: T) => number | undefined,
): Record<string, number> {
  const entries = Object.entries(of).map(([name, value]) => [name, read(value)] as const);
  return Object.fromEntries(
    entries.filter((entry): entry is [string, number] => entry[1] !== undefined),
  );
}
