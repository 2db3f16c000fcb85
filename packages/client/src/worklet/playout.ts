import { JitterGauge } from './jitter-gauge.ts';
import { extend, joinSmoothly, repeatLag, SEAM_SAMPLES } from './waveform.ts';

/** Samples per millisecond; lengths are in samples. */
const SAMPLES_PER_MS = 48;
const CAPACITY = 3000 * SAMPLES_PER_MS;
/** Length of the audio that is kept to conceal missing audio. */
const HISTORY = 60 * SAMPLES_PER_MS;
/** Maximum length of concealment when nothing comes: after it, silence is less of a nuisance. */
const MAX_MADE_UP = 80 * SAMPLES_PER_MS;
/** Excess delay that is not corrected: a correction would be more audible than it is. */
const MAX_EXCESS = 20 * SAMPLES_PER_MS;
/** Shortage that is not corrected; a longer one would cause an underrun. */
const MAX_SHORTAGE = 2 * SAMPLES_PER_MS;
/** Minimum time between two corrections of the delay. */
const BETWEEN_CORRECTIONS = 120 * SAMPLES_PER_MS;
/** Excess that is not corrected, and time between two corrections, in a hurry. */
const MAX_HURRIED_EXCESS = 5 * SAMPLES_PER_MS;
const BETWEEN_HURRIED_CORRECTIONS = 40 * SAMPLES_PER_MS;
/** Length of the audio in which a period is searched. */
const STRETCH = 20 * SAMPLES_PER_MS;
/** Number of packets over which the reported delay is averaged. */
const TOLD_PACKETS = 25;
/** Excess delay beyond which audio is dropped at once: it comes from a long stall. */
const FAR_TOO_LATE = 500 * SAMPLES_PER_MS;

/** Counters of a {@link Playout}; times in ms. */
export type PlayoutStats = {
  /** Time that a packet that is in time waits here until it begins to be played; 0 before the first. */
  delayMs: number;
  jitterMs: number;
  /** Number of times that there was nothing to play in the middle of audio. */
  underruns: number;
  /** Number of lost packets that were concealed. */
  concealed: number;
};

/**
 * Adaptive jitter buffer: decoded audio goes in as it arrives, and comes out evenly, as late as the network
 * makes necessary. Its clock is the number of samples that are read.
 */
export class Playout {
  /**
   * True while another transport is about to take over, with which what still waits here would be missing: the delay is shortened
   * quickly to that of a good network.
   */
  isHurried = false;
  readonly #gauge = new JitterGauge();
  readonly #queue = new Float32Array(CAPACITY);
  readonly #history = new Float32Array(HISTORY);
  #head = 0;
  #length = 0;
  /** Number of samples that have been read since the beginning. */
  #now = 0;
  #isPlaying = false;
  /** Time at which a pause ends, in samples of {@link #now}. */
  #playAt = Infinity;
  /**
   * Number of samples synthesized since there was something to play; at its maximum before the first audio,
   * of which they would be made.
   */
  #madeUp = MAX_MADE_UP;
  #lastCorrection = 0;
  #packetLength = 20 * SAMPLES_PER_MS;
  #lostInARow = 0;
  /** Delay from the arrival of a packet in time to the end of the queue; 0 while it is unknown. */
  #delay = 0;
  #toldDelay: number | undefined;
  #ranDry = false;
  #underruns = 0;
  #concealed = 0;

  get stats(): PlayoutStats {
    return {
      delayMs: (this.#toldDelay ?? 0) / SAMPLES_PER_MS,
      jitterMs: this.#gauge.jitter / SAMPLES_PER_MS,
      underruns: this.#underruns,
      concealed: this.#concealed,
    };
  }

  /** Takes one decoded packet, 48 kHz mono, and may change its samples. */
  push(samples: Float32Array): void {
    this.#packetLength = samples.length;
    if (this.#lostInARow > 0) {
      // Cross-fades from what was made up for lost packets.
      const fresh = samples.subarray(0, SEAM_SAMPLES);
      joinSmoothly(this.#madeUpBehind(fresh.length), fresh);
    }
    this.#lostInARow = 0;
    this.#add(samples);
  }

  /** Conceals a lost packet, assumed to be as long as the last one. */
  pushLost(): void {
    const made = this.#madeUpBehind(this.#packetLength);
    this.#lostInARow += made.length;
    this.#concealed += 1;
    this.#add(made);
  }

  /** Fills a block with the next audio. */
  read(block: Float32Array): void {
    if (!this.#isPlaying && this.#isDue) this.#begin();
    if (this.#isPlaying) this.#correctDelay();
    const there = this.#isPlaying ? Math.min(this.#length, block.length) : 0;
    const [queued, rest] = [block.subarray(0, there), block.subarray(there)];
    this.#take(queued);
    this.#remember(queued);
    if (rest.length > 0) this.#makeUp(rest);
    this.#remember(rest);
    this.#now += block.length;
  }

  /** True if the pause is over, or as much audio has come at once as must wait. */
  get #isDue(): boolean {
    if (this.#length === 0) return false;
    return this.#now >= this.#playAt || this.#length >= this.#gauge.target;
  }

  #add(samples: Float32Array): void {
    const { verdict, lateness } = this.#gauge.note(this.#now, samples.length);
    if (verdict !== 'undecided') {
      if (this.#ranDry && verdict !== 'pause') this.#underruns += 1;
      this.#ranDry = false;
    }
    if (!this.#isPlaying && this.#length === 0) {
      const isFading = this.#madeUp > 0 && this.#madeUp < MAX_MADE_UP;
      this.#playAt = isFading ? this.#now : this.#now + this.#gauge.target - samples.length;
    }
    const room = CAPACITY - this.#length;
    const fitting = samples.subarray(Math.max(0, samples.length - room));
    for (const sample of fitting) {
      this.#queue[(this.#head + this.#length) % CAPACITY] = sample;
      this.#length += 1;
    }
    // Audio after a pause is not late, and audio after a stall soon is not: neither may be cut.
    this.#delay = verdict === 'undecided' ? 0 : this.#length + lateness;
    if (this.#delay > 0) this.#tellDelay(this.#delay - samples.length);
  }

  #tellDelay(delay: number): void {
    const told = this.#toldDelay ?? delay;
    this.#toldDelay = told + (delay - told) / TOLD_PACKETS;
  }

  #begin(): void {
    this.#isPlaying = true;
    if (this.#madeUp === 0) return;
    // Cross-fades from the concealment, or the silence after it, to the new audio.
    const tail = new Float32Array(SEAM_SAMPLES);
    extend(this.#history, tail, this.#madeUp, MAX_MADE_UP);
    this.#joinTo(tail);
    this.#madeUp = 0;
  }

  /** Cross-fades from what would have been played to the beginning of the queue. */
  #joinTo(before: Float32Array): void {
    const fresh = this.#peek(Math.min(before.length, this.#length));
    joinSmoothly(before.subarray(0, fresh.length), fresh);
    this.#poke(fresh);
  }

  /** Removes or repeats a period if audio waits longer, or shorter, than the network makes necessary. */
  #correctDelay(): void {
    const { isHurried } = this;
    const between = isHurried ? BETWEEN_HURRIED_CORRECTIONS : BETWEEN_CORRECTIONS;
    if (this.#delay === 0 || this.#now - this.#lastCorrection < between) return;
    const { target, leastTarget } = this.#gauge;
    const excess = this.#delay - (isHurried ? leastTarget : target);
    const isLong = excess > (isHurried ? MAX_HURRIED_EXCESS : MAX_EXCESS);
    const isShort = excess < -MAX_SHORTAGE && !isHurried;
    if (!isLong && !isShort) return;
    if (excess > FAR_TOO_LATE) {
      const before = this.#peek(Math.min(this.#length, SEAM_SAMPLES));
      this.#drop(Math.min(excess, this.#length));
      this.#joinTo(before);
      return;
    }
    const stretch = this.#peek(Math.min(this.#length, STRETCH));
    const lag = repeatLag(stretch);
    if (lag === 0) return;
    const [start, later] = [0, lag].map((from) => stretch.slice(from, from + SEAM_SAMPLES));
    if (excess > 0) {
      joinSmoothly(start!, later!);
      this.#drop(lag);
      this.#poke(later!);
    } else {
      joinSmoothly(later!, start!);
      this.#poke(start!);
      this.#drop(-lag);
      this.#poke(stretch.subarray(0, lag));
    }
  }

  /** @param count number of samples; if negative, makes room for as many before the queue */
  #drop(count: number): void {
    this.#head = (this.#head + count + CAPACITY) % CAPACITY;
    this.#length -= count;
    this.#delay -= count;
    this.#lastCorrection = this.#now;
  }

  #makeUp(rest: Float32Array): void {
    if (this.#isPlaying) {
      this.#isPlaying = false;
      this.#ranDry = true;
      this.#playAt = this.#now;
    }
    if (this.#madeUp >= MAX_MADE_UP) {
      rest.fill(0);
      return;
    }
    extend(this.#history, rest, this.#madeUp, MAX_MADE_UP);
    this.#madeUp += rest.length;
  }

  #take(block: Float32Array): void {
    for (let i = 0; i < block.length; i += 1) {
      block[i] = this.#queue[(this.#head + i) % CAPACITY]!;
    }
    this.#head = (this.#head + block.length) % CAPACITY;
    this.#length -= block.length;
  }

  /** Returns the next samples without removing them. */
  #peek(count: number): Float32Array {
    return Float32Array.from(
      { length: count },
      (_, i) => this.#queue[(this.#head + i) % CAPACITY]!,
    );
  }

  #poke(samples: Float32Array): void {
    for (const [i, sample] of samples.entries()) this.#queue[(this.#head + i) % CAPACITY] = sample;
  }

  /** Returns samples that continue the end of the queue in place of a lost packet. */
  #madeUpBehind(count: number): Float32Array {
    const made = new Float32Array(count);
    extend(this.#lastQueued(), made, this.#lostInARow, MAX_MADE_UP);
    return made;
  }

  /** Returns the end of the queue, and what was played before it, as long as the history. */
  #lastQueued(): Float32Array {
    const missing = Math.max(0, HISTORY - this.#length);
    const last = new Float32Array(HISTORY);
    last.set(this.#history.subarray(HISTORY - missing));
    const from = this.#head + this.#length - (HISTORY - missing);
    for (let i = missing; i < HISTORY; i += 1) {
      last[i] = this.#queue[(from + i - missing) % CAPACITY]!;
    }
    return last;
  }

  #remember(block: Float32Array): void {
    this.#history.copyWithin(0, block.length);
    this.#history.set(block, HISTORY - block.length);
  }
}
