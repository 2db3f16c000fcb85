/** Load of this gateway process, sampled once a second. Shares of CPU are between 0 and 1. */
export type LoadSample = {
  /** Delay of the event loop in the last second: median and 99th percentile. */
  loopDelayMs: { p50: number; p99: number };
  cpu: {
    /** CPU of this process with all its threads, as a share of all cores that it may use. */
    process: number;
    /** CPU of the event loop's thread, as a share of one core. */
    eventLoop: number;
    /** Time in which the decoder thread was busy, as a share of the time. */
    decoder: number;
    /** Time that a tick takes in each mixing thread that may run, as a share of its 20 ms; above 1 it falls behind. */
    mixThreads: number[];
    /** CPU of each media worker, as a share of one core. */
    mediaWorkers: number[];
  };
  /** Resident memory of this process. */
  memoryBytes: number;
};

/** Limits from which the gateway process is overloaded; 0 disables a limit. */
export type LoadMarks = { loopDelayMs: number; cpuShare: number; memoryBytes: number };

/** `strained`: audio is encoded more cheaply, unless memory is the cause; `overloaded`: new clients are refused. */
export const LOAD_LEVELS = ['normal', 'strained', 'overloaded'] as const;
export type LoadLevel = (typeof LOAD_LEVELS)[number];

/**
 * Number of samples in a row, one a second, that must agree before the level changes: a garbage collection or
 * a start is not load.
 */
export const STEADY_SAMPLES = 5;
/** Share of a limit from which the load is `strained`. */
const STRAINED_SHARE = 0.8;
/** Share of the threshold of a level at which the level is left, so that it does not flap. */
const LEFT_AT_SHARE = 0.85;

/** Returns the level after the last samples, the newest last, given the level before; pure. */
export function judgeLoad(samples: LoadSample[], marks: LoadMarks, before: LoadLevel): LoadLevel {
  const pressures = samples.slice(-STEADY_SAMPLES).map((sample) => pressureOf(sample, marks));
  if (pressures.length < STEADY_SAMPLES) return before;
  const atLeast = levelAt(Math.min(...pressures));
  const atMost = levelAt(Math.max(...pressures) / LEFT_AT_SHARE);
  if (LOAD_LEVELS.indexOf(atLeast) > LOAD_LEVELS.indexOf(before)) return atLeast;
  if (LOAD_LEVELS.indexOf(atMost) < LOAD_LEVELS.indexOf(before)) return atMost;
  return before;
}

function levelAt(pressure: number): LoadLevel {
  if (pressure >= 1) return 'overloaded';
  return pressure >= STRAINED_SHARE ? 'strained' : 'normal';
}

/** Returns the largest ratio of a sample to its limits; 1 is the limit. */
function pressureOf({ loopDelayMs, cpu, memoryBytes }: LoadSample, marks: LoadMarks): number {
  return Math.max(
    // The median: a single stall per second is audible, but not caused by too many clients.
    shareOf(loopDelayMs.p50, marks.loopDelayMs),
    shareOf(Math.max(cpu.process, cpu.eventLoop, cpu.decoder, ...cpu.mediaWorkers), marks.cpuShare),
    mixingPressureOf(cpu.mixThreads, marks),
    shareOf(memoryBytes, marks.memoryBytes),
  );
}

/** One room may fill a thread while others are free: it is encoded more cheaply. New rooms are refused once all are full. */
function mixingPressureOf(shares: number[], { cpuShare }: LoadMarks): number {
  if (shares.length === 0) return 0;
  const busiest = shareOf(Math.max(...shares), cpuShare);
  return Math.max(shareOf(Math.min(...shares), cpuShare), Math.min(busiest, STRAINED_SHARE));
}

const shareOf = (value: number, mark: number) => (mark === 0 ? 0 : value / mark);
