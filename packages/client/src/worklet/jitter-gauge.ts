/** Lengths and times are in samples of 48 kHz. */
const SAMPLES_PER_MS = 48;
const SECOND = 1000 * SAMPLES_PER_MS;
/** Packets later than this are of a stall, or come after a pause: those after them tell which. */
const NOTABLY_LATE = 60 * SAMPLES_PER_MS;
/** Packets in a row after which a stream that has not caught up is taken to have paused. */
const PATIENCE_PACKETS = 10;
/** How long the earliest packets are remembered by which lateness is measured: clocks differ. */
const BASE_WINDOW = 5 * SECOND;
const PEAKS = 10;
/** Share of a peak that is left a second later, once it is older than the last {@link PEAKS} seconds. */
const DECAY = 0.98;
const SHORTEST_TARGET = 40 * SAMPLES_PER_MS;
const LONGEST_TARGET = 400 * SAMPLES_PER_MS;
const MARGIN = 20 * SAMPLES_PER_MS;

/**
 * `steady`: in time. `undecided`: late, and it is not known yet why. `stall`: the network held back what has come since.
 * `pause`: nothing was sent for a while.
 */
type Verdict = 'steady' | 'undecided' | 'stall' | 'pause';

/**
 * Measures how unevenly packets come that carry no time: by what came before them. A stream that pauses, and one that the network
 * holds back, are told apart by what follows: only the latter catches up.
 */
export class JitterGauge {
  /** Samples that have come. */
  #received = 0;
  /** Earliest arrivals of this window and of the one before, each as the time less what had come by then. */
  #base = Infinity;
  #lastBase = Infinity;
  #windowEnd = BASE_WINDOW;
  readonly #peaks = Array.from({ length: PEAKS }, () => 0);
  #peakEnd = SECOND;
  /** At first a middling network is assumed. */
  #memory = 40 * SAMPLES_PER_MS;
  #late: { peak: number; packets: number; earliest: number } | undefined;

  get jitter(): number {
    return Math.max(this.#memory, ...this.#peaks);
  }

  /** How much sound is to wait, so that none is missing. */
  get target(): number {
    return Math.min(LONGEST_TARGET, Math.max(SHORTEST_TARGET, this.jitter + MARGIN));
  }

  /** Notes that a packet of some length has come. @returns how late it was, beside the earliest ones */
  note(now: number, length: number): { verdict: Verdict; lateness: number } {
    const arrival = now - this.#received;
    this.#received += length;
    this.#roll();
    const lateness = Math.max(0, arrival - Math.min(this.#base, this.#lastBase));
    if (!Number.isFinite(lateness) || lateness === 0) return this.#settle(arrival, 'steady');
    if (!this.#late) {
      if (lateness <= NOTABLY_LATE) return this.#measured(arrival, lateness);
      this.#late = { peak: lateness, packets: 1, earliest: arrival };
      return { verdict: 'undecided', lateness };
    }
    const late = this.#late;
    late.packets += 1;
    late.peak = Math.max(late.peak, lateness);
    late.earliest = Math.min(late.earliest, arrival);
    if (lateness < late.peak / 2) {
      this.#late = undefined;
      this.#keepPeak(late.peak);
      return { verdict: 'stall', lateness };
    }
    if (late.packets < PATIENCE_PACKETS) return { verdict: 'undecided', lateness };
    this.#base = this.#lastBase = late.earliest;
    this.#windowEnd = this.#received + BASE_WINDOW;
    return this.#settle(arrival, 'pause');
  }

  #measured(arrival: number, lateness: number): { verdict: Verdict; lateness: number } {
    this.#keepPeak(lateness);
    this.#base = Math.min(this.#base, arrival);
    return { verdict: 'steady', lateness };
  }

  /** In time, or counted as such from now on. A stall that ends in time has caught up. */
  #settle(arrival: number, verdict: Verdict): { verdict: Verdict; lateness: number } {
    const late = this.#late;
    this.#late = undefined;
    this.#base = Math.min(this.#base, arrival);
    if (!late || verdict === 'pause') return { verdict, lateness: 0 };
    this.#keepPeak(late.peak);
    return { verdict: 'stall', lateness: 0 };
  }

  #keepPeak(lateness: number): void {
    this.#peaks[0] = Math.max(this.#peaks[0]!, lateness);
  }

  #roll(): void {
    while (this.#received >= this.#peakEnd) {
      this.#peakEnd += SECOND;
      this.#memory = Math.max(this.#memory * DECAY, this.#peaks.pop()!);
      this.#peaks.unshift(0);
    }
    if (this.#received < this.#windowEnd) return;
    this.#windowEnd = this.#received + BASE_WINDOW;
    this.#lastBase = this.#base;
    this.#base = Infinity;
  }
}
