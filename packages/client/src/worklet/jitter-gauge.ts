/** Lengths and times are in samples of 48 kHz. */
const SAMPLES_PER_MS = 48;
const SECOND = 1000 * SAMPLES_PER_MS;
/** Packets later than this are of a stall, or come after a pause: those after them tell which. */
const NOTABLY_LATE = 60 * SAMPLES_PER_MS;
/** Packets in a row after which a stream that has not caught up is taken to have paused. */
const PATIENCE_PACKETS = 10;
/** How long the earliest packets are remembered by which lateness is measured: clocks differ. */
const BASE_WINDOW = 5 * SECOND;
/** Seconds for which what was late is reckoned with, whatever it was; after these, stalls are left out. */
const RECENT_STALLS = 3;
const RECENT = 10;
/** Seconds that count as one: a join, or a busy machine, brings several stalls at once. */
const SPELL = 10;
/** Spells after which what has come again is forgotten: three minutes. */
const SPELLS = 18;
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
 * holds back, are told apart by what follows: only the latter catches up. A stall is reckoned with for some seconds; only one that
 * comes again in another spell is for minutes, since sound that waits for a stall that does not come is late for nothing.
 */
export class JitterGauge {
  /** Samples that have come. */
  #received = 0;
  /** Earliest arrivals of this window and of the one before, each as the time less what had come by then. */
  #base = Infinity;
  #lastBase = Infinity;
  #windowEnd = BASE_WINDOW;
  /** Largest lateness of each second, the present one first. At first a middling network is assumed. */
  readonly #peaks = [40 * SAMPLES_PER_MS];
  /** The same of each spell. */
  readonly #spells = [0];
  #seconds = 0;
  #late: { peak: number; packets: number; earliest: number } | undefined;

  get jitter(): number {
    const recent = this.#peaks.map((peak, i) =>
      i < RECENT_STALLS ? peak : Math.min(peak, NOTABLY_LATE),
    );
    return Math.max(this.#recurring(), ...recent);
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
    this.#spells[0] = Math.max(this.#spells[0]!, lateness);
  }

  /** The largest lateness that was reached in two spells, which are no neighbours. */
  #recurring(): number {
    let largest = 0;
    for (const [i, one] of this.#spells.entries()) {
      for (const other of this.#spells.slice(i + 2)) {
        largest = Math.max(largest, Math.min(one, other));
      }
    }
    return largest;
  }

  #roll(): void {
    while (this.#received >= (this.#seconds + 1) * SECOND) {
      this.#seconds += 1;
      this.#peaks.unshift(0);
      this.#peaks.splice(RECENT);
      if (this.#seconds % SPELL > 0) continue;
      this.#spells.unshift(0);
      this.#spells.splice(SPELLS);
    }
    if (this.#received < this.#windowEnd) return;
    this.#windowEnd = this.#received + BASE_WINDOW;
    this.#lastBase = this.#base;
    this.#base = Infinity;
  }
}
