import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { openMemoryTrim } from '../../../src/app/open-load.ts';
import { LoadMonitor } from '../../../src/load/load-monitor.ts';
import { Reserves } from '../../../src/load/reserves.ts';
import { shareOf } from '../../../src/load/supplies.ts';
import { silentLog } from '../../support/gateway.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const PEAK_BYTES = 1e9;
const timings = DEFAULT_TIMINGS;

test.each([
  ['cgroup is full', 1.05 * PEAK_BYTES, 0],
  ['process has OVERLOAD_MEMORY_MB', 2 * PEAK_BYTES, PEAK_BYTES],
])('once the clients are gone by which its %s, a node is ready again', async (_, limit, mark) => {
  await using opened = new AsyncDisposableStack();
  // The blocks of the clients' frames have been freed, but glibc keeps them.
  let residentBytes = PEAK_BYTES;
  const cpu = { process: 0, eventLoop: 0, decoder: 0, mixThreads: [], mediaWorkers: [] };
  const monitor = new LoadMonitor(
    () => ({ loopDelayMs: { p50: 0, p99: 0 }, cpu, memoryBytes: residentBytes }),
    { loopDelayMs: 50, cpuShare: 0.9, memoryBytes: mark },
    silentLog,
    () => {},
    timings.load,
  );
  opened.defer(() => monitor.close());
  const cgroup = {
    resource: 'memory' as const,
    name: 'cgroup',
    measure: () => ({ used: residentBytes, limit }),
    reserveOf: shareOf(0.1, 0, 1e9),
  };
  const noFaults = { descriptors: 0, memory: 0, threads: 0, ports: 0, disk: 0 };
  const reserves = new Reserves(silentLog, timings.load, [cgroup], noFaults);
  opened.defer(() => reserves.close());
  const isRefusing = () => monitor.level === 'overloaded' || reserves.isShort;
  let wasRefusing = false;
  openMemoryTrim({ timings, opened }, monitor, reserves, (onDone) => {
    wasRefusing = isRefusing();
    residentBytes = 0.3 * PEAK_BYTES;
    onDone();
  });
  vi.advanceTimersByTime(18 * timings.load.sampleEveryMs);
  expect([wasRefusing, isRefusing()]).toEqual([true, false]);
});
