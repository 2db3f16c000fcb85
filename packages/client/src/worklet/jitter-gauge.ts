/** Lengths and times are in samples of 48 kHz. */
const SAMPLES_PER_MS = 48;
const SECOND = 1000 * SAMPLES_PER_MS;
/** Lateness of a packet from which the cause is a stall or a pause; the packets after it show which. */
const NOTABLY_LATE = 60 * SAMPLES_PER_MS;
/** Number of late packets, and time since the first of them, after which a stream that has not caught up counts as having paused. */
const PATIENCE_PACKETS = 10;
const PATIENCE = 180 * SAMPLES_PER_MS;
/** Time for which the earliest packets, by which lateness is measured, are remembered: clocks differ. */
const BASE_WINDOW = 5 * SECOND;
/** Number of the latest seconds of received audio whose lateness counts in full; of older seconds stalls do not count. */
const RECENT_STALLS = 3;
const RECENT = 10;
/** Length of a spell of the clock: a join, or a busy machine, causes several stalls at once, which count as one. */
const SPELL = 10 * SECOND;
/** Number of spells that are remembered: ten minutes, also of a room in which little is said. */
const SPELLS = 60;
const SHORTEST_TARGET = 40 * SAMPLES_PER_MS;
const LONGEST_TARGET = 400 * SAMPLES_PER_MS;
/** Length of a packet that the targets allow for. */
const USUAL_LENGTH = 20 * SAMPLES_PER_MS;
/** Audio that waits beyond the jitter, for a shortage that `Playout` does not correct, and a block that is read at once. */
const SPARE = 5 * SAMPLES_PER_MS;

/**
 * `steady`: in time. `undecided`: late, for a reason that is not known yet. `stall`: the network held back
 * packets. `pause`: nothing was sent for a while.
 */
type Verdict = 'steady' | 'undecided' | 'stall' | 'pause';

/** Late packets in a row. */
type Late = {
  /** Largest lateness of them. */
  peak: number;
  /** Arrival of the first, by the clock. */
  since: number;
  packets: number;
  /** Earliest arrival of them, as the time less the number of samples received by then. */
  earliest: number;
  /** True if they are the rest of a stall that has been noted. */
  isRest: boolean;
};

/**
 * Measures the jitter of packets without timestamps, by the amount of audio before each. Packets after a late
 * one tell a pause of the sender from a stall of the network: only after a stall does the stream catch up. A
 * stall counts for some seconds; only one that recurs in another spell counts for minutes, because audio that
 * waits for a stall that does not come is late in vain.
 */
export class JitterGauge {
  /** Number of received samples. */
  #received = 0;
  /** Length of the last packet. */
  #length = 0;
  /**
   * Earliest arrivals of this window and of the one before, each as the time less the number of samples
   * received by then.
   */
  #base = Infinity;
  #lastBase = Infinity;
  #windowEnd = BASE_WINDOW;
  /** Largest lateness of each second of received audio, the present one first; at first that of an average network is assumed. */
  readonly #peaks = [40 * SAMPLES_PER_MS];
  /** Largest lateness of each spell, the present one first. */
  readonly #spells = [0];
  #seconds = 0;
  /** Largest lateness that was reached in two spells that are not adjacent. */
  #recurring = 0;
  /** Number of the present spell, by the clock. */
  #spell = 0;
  #late: Late | undefined;

  get jitter(): number {
    let largest = this.#recurring;
    for (let i = 0; i < this.#peaks.length; i += 1) {
      const peak = this.#peaks[i]!;
      largest = Math.max(largest, i < RECENT_STALLS ? peak : Math.min(peak, NOTABLY_LATE));
    }
    return largest;
  }

  /** Amount of audio that must wait when a packet has come, the packet included, so that none is missing before the next, samples. */
  get target(): number {
    const ofUsual = Math.max(SHORTEST_TARGET, this.jitter + USUAL_LENGTH + SPARE);
    return Math.min(LONGEST_TARGET, ofUsual) + this.#beyondUsual;
  }

  /** Amount that would have to wait on a good network, samples. */
  get leastTarget(): number {
    return SHORTEST_TARGET + this.#beyondUsual;
  }

  get #beyondUsual(): number {
    return Math.max(0, this.#length - USUAL_LENGTH);
  }

  /** Notes the arrival of a packet. @returns its lateness relative to the earliest packets */
  note(now: number, length: number): { verdict: Verdict; lateness: number } {
    const arrival = now - this.#received;
    this.#received += length;
    this.#length = length;
    this.#roll();
    this.#rollSpells(now);
    const lateness = Math.max(0, arrival - Math.min(this.#base, this.#lastBase));
    if (!Number.isFinite(lateness) || lateness === 0) return this.#settle(arrival);
    if (!this.#late) {
      if (lateness <= NOTABLY_LATE) return this.#measured(arrival, lateness);
      this.#late = { peak: lateness, since: now, packets: 1, earliest: arrival, isRest: false };
      return { verdict: 'undecided', lateness };
    }
    const late = this.#late;
    late.packets += 1;
    late.peak = Math.max(late.peak, lateness);
    late.earliest = Math.min(late.earliest, arrival);
    if (lateness < late.peak / 2) {
      const isLate = lateness > NOTABLY_LATE;
      const rest = { peak: lateness, since: now, packets: 1, earliest: arrival, isRest: true };
      this.#late = isLate ? rest : undefined;
      if (!late.isRest) this.#keepPeak(late.peak);
      return { verdict: 'stall', lateness };
    }
    if (late.packets < PATIENCE_PACKETS || now - late.since < PATIENCE) {
      return { verdict: 'undecided', lateness };
    }
    this.#late = undefined;
    this.#base = this.#lastBase = late.earliest;
    this.#windowEnd = this.#received + BASE_WINDOW;
    // After a stall in which the gateway dropped audio, the stream catches up by the rest alone.
    const hasCaughtUp = late.peak - lateness >= NOTABLY_LATE;
    return { verdict: hasCaughtUp ? 'stall' : 'pause', lateness: 0 };
  }

  #measured(arrival: number, lateness: number): { verdict: Verdict; lateness: number } {
    this.#keepPeak(lateness);
    this.#base = Math.min(this.#base, arrival);
    return { verdict: 'steady', lateness };
  }

  /** Counts an arrival as in time from now on. A stall that ends in time has caught up. */
  #settle(arrival: number): { verdict: Verdict; lateness: number } {
    const late = this.#late;
    this.#late = undefined;
    this.#base = Math.min(this.#base, arrival);
    if (!late) return { verdict: 'steady', lateness: 0 };
    if (!late.isRest) this.#keepPeak(late.peak);
    return { verdict: 'stall', lateness: 0 };
  }

  #keepPeak(lateness: number): void {
    // A stall that is longer than audio may wait is waited for only if it has come again.
    if (lateness <= LONGEST_TARGET) this.#peaks[0] = Math.max(this.#peaks[0]!, lateness);
    if (lateness <= this.#spells[0]!) return;
    this.#spells[0] = lateness;
    this.#findRecurring();
  }

  /** Finds the largest recurring lateness, when spells have changed: the result is read several hundred times a second, and so is kept. */
  #findRecurring(): void {
    this.#recurring = 0;
    for (let i = 0; i < this.#spells.length; i += 1) {
      for (let other = i + 2; other < this.#spells.length; other += 1) {
        const both = Math.min(this.#spells[i]!, this.#spells[other]!);
        this.#recurring = Math.max(this.#recurring, both);
      }
    }
  }

  #roll(): void {
    while (this.#received >= (this.#seconds + 1) * SECOND) {
      this.#seconds += 1;
      this.#peaks.unshift(0);
      this.#peaks.splice(RECENT);
    }
    if (this.#received < this.#windowEnd) return;
    this.#windowEnd = this.#received + BASE_WINDOW;
    this.#lastBase = this.#base;
    this.#base = Infinity;
  }

  #rollSpells(now: number): void {
    const spell = Math.floor(now / SPELL);
    if (spell === this.#spell) return;
    const begun = Math.min(SPELLS, spell - this.#spell);
    this.#spell = spell;
    for (let i = 0; i < begun; i += 1) this.#spells.unshift(0);
    this.#spells.splice(SPELLS);
    this.#findRecurring();
  }
}
