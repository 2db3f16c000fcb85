import koffi from 'koffi';
import type { Timings } from '../../config/timings.ts';

/** Gives freed memory back to the kernel, and calls back when done; other threads go on, but wait where they allocate. */
export type Trim = (onDone: () => void) => void;

/** Part of the time that may be spent on giving back memory: audio waits for as long. */
const MAX_TIME_SHARE = 0.001;

/** Returns glibc's `malloc_trim` (malloc_trim(3)), run in a thread of libuv's pool; a function that does nothing if the C library is another. */
export function findTrim(symbol = 'malloc_trim'): Trim {
  try {
    const trim = koffi.load(null).func(`int ${symbol}(size_t)`);
    return (onDone) => trim.async(0, onDone);
  } catch {
    return (onDone) => onDone();
  }
}

/**
 * Gives memory back to the kernel while it is short: glibc keeps small blocks that were freed, as frames are, so that the process
 * would seem to need what the clients needed that are gone.
 */
export class MemoryTrim {
  readonly #timer: NodeJS.Timeout;
  #isTrimming = false;
  #notBeforeMs = -Infinity;

  /** @param isShort returns whether the memory of this process, of its cgroup or of the machine is short */
  constructor(
    isShort: () => boolean,
    { trimEveryMs }: Pick<Timings['load'], 'trimEveryMs'>,
    trim = findTrim(),
  ) {
    this.#timer = setInterval(() => {
      const mayRun = !this.#isTrimming && performance.now() >= this.#notBeforeMs;
      if (mayRun && isShort()) this.#run(trim);
    }, trimEveryMs);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #run(trim: Trim): void {
    const sinceMs = performance.now();
    this.#isTrimming = true;
    trim(() => {
      const nowMs = performance.now();
      this.#isTrimming = false;
      this.#notBeforeMs = nowMs + (nowMs - sinceMs) / MAX_TIME_SHARE;
    });
  }
}
