/** Lead beyond which audio was not sent as it was spoken, ms: the sender sends in pieces, or catches up after a stall. */
const LEAST_BURST_MS = 240;
/** Maximum duration of a run without a burst, ms. */
const MAX_EVEN_RUN_MS = 2000;
/** Maximum time between the beginnings of two pieces, ms: the longest piece of a habit, and its lateness. */
const MAX_PERIOD_MS = 2300;
/** Time, ms, and growth of the lead in it that means that the sender is too fast: after a stall the lead remains the same. */
const GROWTH_OVER_MS = 1000;
const MAX_GROWTH_MS = 100;
/** Tolerance, as a share and in ms, within which a piece holds the sound of the time until the next one. */
const PERIOD_TOLERANCE = 0.25;
const PERIOD_TOLERANCE_MS = 100;
/** Minimum lead of a piece over real time, as a share of its audio. */
const LEAST_AT_ONCE = 0.24;
/** Number of consecutive pieces that make a sender bursty; and of sentences, each of which comes mostly at once, before a pause. */
const PIECES_OF_A_HABIT = 2;
const SENTENCES_OF_A_HABIT = 3;
/** Minimum lead of a sentence over real time, as a share of its audio; and minimum growth of the lead with its last packet, as a share of that. */
const LEAST_OF_A_SENTENCE_AT_ONCE = 0.5;
const LEAST_RISE = 0.25;
/** Duration of even sound that counts as a habit, too: at the beginning, and after another habit. */
const EVEN_AT_FIRST_MS = 1000;
const EVEN_AFTER_BURSTS_MS = 3000;

/**
 * Pacing of a sender. `new`: unknown, because too little has come; `even`: as it is spoken; `bursty`: in
 * pieces of up to two seconds, each with the audio since the previous one.
 */
export type Habit = 'new' | 'even' | 'bursty';

/**
 * Detects the pacing of a sender from the duration and arrival of its audio. A burst that is followed by a
 * pause as long as itself is a piece; a burst after which audio comes evenly was a stall of the network.
 * Pure: a few additions per message.
 */
export class BurstHabit {
  #habit: Habit = 'new';
  /** Run of messages since audio was last in time: its beginning, and the duration of its audio. */
  #startMs: number | undefined;
  #soundMs = 0;
  #atMs = 0;
  /** Maximum lead of the run's audio. */
  #peakMs = 0;
  /** True if the lead still grew with the last packet. */
  #endsRising = false;
  /** Lead of the run's audio about a second before it has lasted for longer than a piece. */
  #earlierLeadMs = 0;
  /** Number of consecutive pieces, each of which came when the one before had been played. */
  #pieces = 0;
  /** Number of consecutive bursts, each of which came mostly at once, and was over before the next one began. */
  #sentences = 0;
  #evenMs = 0;

  get habit(): Habit {
    return this.#habit;
  }

  /**
   * Processes the arrival time of a message, before its audio.
   * @returns `run` if the message begins a run; `piece` if the message begins a run right after a piece; `stall` if
   *   audio has been ahead of real time for longer than a piece lasts; otherwise undefined
   */
  arrive(atMs: number): 'run' | 'piece' | 'stall' | undefined {
    this.#atMs = atMs;
    if (this.#startMs === undefined) return this.#begin();
    const elapsedMs = atMs - this.#startMs;
    const leadMs = this.#soundMs - elapsedMs;
    const isBurst = this.#peakMs >= LEAST_BURST_MS;
    const isOver = isBurst
      ? leadMs <= this.#peakMs / 2
      : leadMs <= 0 || elapsedMs >= MAX_EVEN_RUN_MS;
    if (isOver) {
      const isPiece = this.#end(elapsedMs);
      this.#begin();
      return isPiece ? 'piece' : 'run';
    }
    if (elapsedMs <= MAX_PERIOD_MS - GROWTH_OVER_MS) this.#earlierLeadMs = leadMs;
    if (!isBurst || elapsedMs <= MAX_PERIOD_MS) return undefined;
    this.#pieces = 0;
    this.#sentences = 0;
    const isGrowing = leadMs > this.#earlierLeadMs + MAX_GROWTH_MS;
    if (isGrowing) this.#evenMs = 0;
    if (isGrowing && this.#habit === 'even') this.#habit = 'new';
    if (!isGrowing && this.#habit === 'new') this.#habit = 'even';
    this.#begin();
    return 'stall';
  }

  /** Adds audio of the message that has arrived last. */
  add(durationMs: number): void {
    this.#soundMs += durationMs;
    const leadMs = this.#soundMs - (this.#atMs - (this.#startMs ?? 0));
    this.#endsRising = leadMs >= this.#peakMs + durationMs * LEAST_RISE;
    this.#peakMs = Math.max(this.#peakMs, leadMs);
  }

  #begin(): 'run' {
    this.#startMs = this.#atMs;
    this.#soundMs = 0;
    this.#peakMs = 0;
    this.#earlierLeadMs = 0;
    return 'run';
  }

  /** @returns true if the run that has ended was a piece */
  #end(periodMs: number): boolean {
    if (this.#peakMs < LEAST_BURST_MS) {
      this.#pieces = 0;
      this.#sentences = 0;
      this.#evenMs += this.#soundMs;
      const enoughMs = this.#habit === 'new' ? EVEN_AT_FIRST_MS : EVEN_AFTER_BURSTS_MS;
      if (this.#evenMs >= enoughMs) this.#habit = 'even';
      return false;
    }
    this.#evenMs = 0;
    const isPiece =
      periodMs <= MAX_PERIOD_MS &&
      Math.abs(this.#soundMs - periodMs) <= periodMs * PERIOD_TOLERANCE + PERIOD_TOLERANCE_MS;
    this.#pieces = isPiece ? this.#pieces + 1 : 0;
    // After a stall of the network sound goes on as it is spoken, and its lead remains the same.
    const isSentence =
      this.#endsRising &&
      this.#soundMs <= periodMs &&
      this.#peakMs >= this.#soundMs * LEAST_OF_A_SENTENCE_AT_ONCE;
    this.#sentences = isSentence ? this.#sentences + 1 : 0;
    const isAtOnce = this.#peakMs >= this.#soundMs * LEAST_AT_ONCE;
    // At the beginning one piece suffices if enough of it came at once: two stalls may look like a
    // piece. Later two in a row are needed.
    const isFirst = this.#habit === 'new' && isAtOnce;
    if (isPiece && (isFirst || this.#pieces >= PIECES_OF_A_HABIT)) this.#habit = 'bursty';
    if (this.#sentences >= SENTENCES_OF_A_HABIT) this.#habit = 'bursty';
    return isPiece;
  }
}
