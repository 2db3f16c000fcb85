import type { Server } from 'node:http';
import { counters } from '../counters.ts';
import { ConnectionLimit } from '../http/connection-limit.ts';
import type { UnauthenticatedConnections } from '../http/unauthenticated-connections.ts';
import { EncoderSteps } from '../load/encoder-steps.ts';
import { LoadMonitor } from '../load/load-monitor.ts';
import { LoadSampler } from '../load/load-sampler.ts';
import { MemoryTrim, type Trim } from '../load/memory-trim.ts';
import { Reserves, type Supply } from '../load/reserves.ts';
import { suppliesOf } from '../load/supplies.ts';
import { LOOPBACK_PORTS } from '../media/loopback.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import type { Audio } from './open-audio.ts';
import type { Media } from './open-media.ts';
import type { Store } from './open-store.ts';
import type { Opening } from './opening.ts';

export type Load = { monitor: LoadMonitor; encoderSteps: EncoderSteps };

/** Watches CPU and memory: under load encoders become cheaper, then new clients are refused. */
export function openLoad(
  { settings, timings, log, opened }: Opening,
  { pool }: Media,
  { codecs, mixEngines }: Audio,
): Load {
  const encoderSteps = new EncoderSteps(settings.OPUS_COMPLEXITY, timings.load);
  const sampler = opened.adopt(
    new LoadSampler(
      () => pool.describe().map(({ cpuShare }) => cpuShare),
      () => codecs.frames.sampleBusyShare(),
      () => mixEngines.threadShares,
    ),
    (part) => part.close(),
  );
  const marks = {
    loopDelayMs: settings.OVERLOAD_LOOP_DELAY_MS,
    cpuShare: settings.OVERLOAD_CPU_PERCENT / 100,
    memoryBytes: settings.OVERLOAD_MEMORY_MB * 1e6,
  };
  const monitor = new LoadMonitor(
    () => sampler.sample(),
    marks,
    log,
    // Cheaper encoders free no memory.
    (workLevel) => mixEngines.setComplexity(encoderSteps.at(workLevel, performance.now())),
    timings.load,
  );
  return { monitor: opened.adopt(monitor, (part) => part.close()), encoderSteps };
}

type ReservesParts = Media &
  Pick<Store, 'redis'> & { rooms: RoomRegistry; unauthenticated: UnauthenticatedConnections };

/** Watches all other limited resources, of which a reserve is kept for clients that are connected. */
export function openReserves(
  { settings, timings, log, opened, shared }: Opening,
  server: Server,
  { pool, cluster, rooms, redis, unauthenticated }: ReservesParts,
): { reserves: Reserves; supplies: Supply[] } {
  const connectionLimit = new ConnectionLimit(server, unauthenticated, log);
  const processes = shared?.processes ?? 1;
  const supplies = suppliesOf({
    onFreeDescriptors: (free) => connectionLimit.allow(free),
    mediaWorkerPids: () => pool.pids,
    rtc: { countTaken: () => pool.countLackingPort(), ports: settings.MEDIA_WORKERS },
    pipes: {
      count: () => cluster.countPipePorts(),
      // All processes of the machine share the range.
      ports: Math.ceil((settings.PIPE_PORT_MAX - settings.PIPE_PORT_MIN + 1) / processes),
    },
    rooms: { count: () => rooms.size, ports: Math.floor(LOOPBACK_PORTS / processes) },
    dataDir: redis.ownDataDir,
  });
  const reserves = opened.adopt(
    new Reserves(log, timings.load, supplies, counters.shortages),
    (part) => part.close(),
  );
  return { reserves, supplies };
}

/** Gives freed memory back to the kernel while new clients are refused for lack of it, or soon would be. */
export function openMemoryTrim(
  { timings, opened }: Pick<Opening, 'timings' | 'opened'>,
  monitor: Pick<LoadMonitor, 'isMemoryShort'>,
  reserves: Pick<Reserves, 'describe'>,
  trim?: Trim,
): void {
  const isShort = () => monitor.isMemoryShort || reserves.describe().memory.isShort;
  opened.adopt(new MemoryTrim(isShort, timings.load, trim), (part) => part.close());
}
