/** How much there is to do at a moment; once a second. Shares of CPU are between 0 and 1. */
export type LoadSample = {
  /** How late the event loop was in the second before: in the middle, and at worst but for one per cent. */
  loopDelayMs: { p50: number; p99: number };
  cpu: {
    /** This process with all its threads, of all the cores that it may use. */
    process: number;
    /** The thread of the event loop, of one core. */
    eventLoop: number;
    /** Each media worker, of one core. */
    mediaWorkers: number[];
  };
  /** Resident memory of this process. */
  memoryBytes: number;
};

/** From where on there is too much to do; 0: there is no such mark. */
export type LoadMarks = { loopDelayMs: number; cpuShare: number; memoryBytes: number };

/** `strained`: sound is made more cheaply; `overloaded`: nobody new is taken. */
export const LOAD_LEVELS = ['normal', 'strained', 'overloaded'] as const;
export type LoadLevel = (typeof LOAD_LEVELS)[number];

/** Number of samples in a row, one a second, that must agree before the level changes: a garbage collection or a start is not load. */
export const STEADY_SAMPLES = 5;
/** Share of a mark from which the load is `strained`. */
const STRAINED_SHARE = 0.8;
/** A level is left at this share of what it was entered at, so that it does not flutter. */
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

/** How near the nearest of its marks a sample is: 1 is there. */
function pressureOf({ loopDelayMs, cpu, memoryBytes }: LoadSample, marks: LoadMarks): number {
  return Math.max(
    // In the middle: one stall a second is heard, but it is not too many clients that make it.
    shareOf(loopDelayMs.p50, marks.loopDelayMs),
    shareOf(Math.max(cpu.process, cpu.eventLoop, ...cpu.mediaWorkers), marks.cpuShare),
    shareOf(memoryBytes, marks.memoryBytes),
  );
}

const shareOf = (value: number, mark: number) => (mark === 0 ? 0 : value / mark);
