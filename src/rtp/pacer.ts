/** What is paced: how much sound it is, whether anybody would miss it, and the silence before it, which is found here. */
type Packet = { durationMs: number; isQuiet: boolean; gapMs: number };

/** Sound this far ahead of its time goes out at once; what is further ahead waits. */
const EARLY_MS = 40;
/** Sound that begins further ahead than this has no place: the oldest that waits is dropped, silence first. */
const MAX_AHEAD_MS = 200;
/** What was held before it came here goes out late, by no more than this. */
const MAX_HELD_MS = 500;
/** Late by so much after silence, or by so much at all: the sender has paused. */
const PAUSE_AFTER_QUIET_MS = 40;
const PAUSE_MS = 400;
/** So many messages in a row that are all late by so much do not catch up any more: it was a pause, not a stall. */
const STEADY_MESSAGES = 4;
const STEADILY_LATE_MS = 60;
const STEADY_WITHIN_MS = 30;
/** More than this is a pause, less may be a slow clock. */
const MOST_CORRECTED_MS = 100;
/** What does not change for two windows is not jitter, but the sender's clock. */
const WINDOW_MS = 500;
/** So much of it is left to receivers, who follow a clock that is a little off (one per cent). */
const SLEW_MS_PER_WINDOW = 5;
/** Share of a window's drift in the mean. */
const DRIFT_SMOOTHING = 0.05;
/** Beyond that, sound is left out where it is quiet, or where it must be; and a gap is made likewise. */
const AHEAD_QUIET_MS = 30;
const AHEAD_LOUD_MS = 60;
const BEHIND_QUIET_MS = 20;

/**
 * Holds a sender's audio against real time. A WebSocket client stamps nothing, so how much audio it sent is its only
 * clock: this tells pauses (the RTP timestamp must jump) from stalls (it must not), lets bursts out at the pace at which
 * they are heard, follows a clock that is slightly off, and bounds how far ahead a client may run. Pure.
 */
export class Pacer<P extends Packet> {
  readonly #queue: P[] = [];
  #bufferedMs = 0;
  /** When all that was pushed will have been heard, on the same clock as `nowMs`. */
  #endMs: number | undefined;
  /** So much later than its time everything goes out, because the first of it had been held. */
  #heldMs = 0;
  #messageAtMs: number | undefined;
  #aheadOfMessageMs = 0;
  #wasQuiet = true;
  /** Of the last messages, in no order. */
  readonly #recentAheadMs = new Float64Array(STEADY_MESSAGES);
  #messages = 0;
  readonly #spread = new Spread();
  #droppedMs = 0;
  #droppedPackets = 0;
  #correctedMs = 0;
  #drift = 0;

  /** How much waits for its time. */
  get bufferedMs(): number {
    return this.#bufferedMs;
  }

  /** How far the last message began ahead of its time; less, when that much has been let out since. */
  aheadMs(nowMs: number): number {
    return Math.min(this.#aheadOfMessageMs, (this.#endMs ?? nowMs) - nowMs);
  }

  /** How much faster (positive) or slower the sender's clock is than this one, in parts per million. */
  get driftPpm(): number {
    return this.#drift * 1e6;
  }

  /** How much sound was left out because it came faster than time. */
  get droppedMs(): number {
    return this.#droppedMs;
  }

  get droppedPackets(): number {
    return this.#droppedPackets;
  }

  /**
   * Takes in a packet that came at `atMs`; what one message held comes at one time, and is never cut by the bound.
   * @param nowMs later than `atMs` if it has been held until now: then it goes out at its pace, and what comes after it
   *   as much later, until a pause, or silence that is left out, has made up for it
   */
  push(packet: P, atMs: number, nowMs = atMs): void {
    this.#endMs ??= atMs;
    const isNewMessage = atMs !== this.#messageAtMs;
    if (isNewMessage) {
      this.#messageAtMs = atMs;
      packet.gapMs = this.#keepPace(packet, atMs);
    }
    this.#endMs += packet.gapMs + packet.durationMs;
    this.#hold(packet, nowMs - atMs);
    this.#queue.push(packet);
    this.#bufferedMs += packet.durationMs;
    this.#wasQuiet = packet.isQuiet;
    if (isNewMessage) this.#dropExcess();
  }

  /** The next packet whose time has come. */
  take(nowMs: number): P | undefined {
    for (;;) {
      const [head] = this.#queue;
      if (!head || this.#endMs === undefined) return undefined;
      if (this.#endMs - this.#bufferedMs + this.#heldMs > nowMs + EARLY_MS) return undefined;
      this.#queue.shift();
      this.#bufferedMs -= head.durationMs;
      if (!head.isQuiet || this.#heldMs < head.durationMs) return head;
      this.#heldMs -= head.durationMs;
      this.#leftOut(head, this.#queue[0]);
    }
  }

  #hold(packet: P, heldMs: number): void {
    if (packet.gapMs > 0 && this.#queue.length === 0) {
      packet.gapMs = Math.max(0, packet.gapMs - this.#heldMs);
      this.#heldMs = 0;
    }
    if (heldMs > EARLY_MS) this.#heldMs = Math.max(this.#heldMs, Math.min(heldMs, MAX_HELD_MS));
  }

  /** @returns how long the sender has paused before this message */
  #keepPace(packet: P, atMs: number): number {
    this.#slew(this.#spread.tick(atMs));
    const aheadMs = this.#endMs! - atMs;
    this.#aheadOfMessageMs = aheadMs;
    this.#spread.add(aheadMs);
    this.#recentAheadMs[this.#messages % STEADY_MESSAGES] = aheadMs;
    this.#messages += 1;
    const gapMs = this.#pauseBefore(packet, -aheadMs);
    if (gapMs > 0) this.#moved(gapMs);
    return gapMs;
  }

  #pauseBefore(packet: P, lateMs: number): number {
    if (lateMs >= PAUSE_MS || (this.#wasQuiet && lateMs >= PAUSE_AFTER_QUIET_MS)) return lateMs;
    const steadilyLateMs = lateMs < STEADILY_LATE_MS ? undefined : this.#steadilyLateMs();
    const behindMs = steadilyLateMs ?? -this.#spread.maxMs;
    const isPause = behindMs >= STEADILY_LATE_MS;
    const isSlowClock = packet.isQuiet && behindMs >= BEHIND_QUIET_MS && behindMs <= lateMs;
    if (!isPause && !isSlowClock) return 0;
    if (behindMs < MOST_CORRECTED_MS) this.#correctedMs += behindMs;
    return behindMs;
  }

  /** In a burst that catches up, each message is less late than the one before it. */
  #steadilyLateMs(): number | undefined {
    if (this.#messages < STEADY_MESSAGES) return undefined;
    const most = Math.max(...this.#recentAheadMs);
    const isSteady = most - Math.min(...this.#recentAheadMs) < STEADY_WITHIN_MS;
    return isSteady && -most >= STEADILY_LATE_MS ? -most : undefined;
  }

  /** Leaves sound out: of a sender far ahead as much as must be, of one who is steadily ahead a packet at a time. */
  #dropExcess(): void {
    const newest = this.#queue.at(-1)!;
    const { minMs } = this.#spread;
    if (minMs > AHEAD_LOUD_MS) this.#dropOldest();
    else if (minMs > AHEAD_QUIET_MS && newest.isQuiet) this.#drop(this.#queue.length - 1);
    while (this.#aheadOfMessageMs > MAX_AHEAD_MS && this.#queue.length > 0) this.#dropOldest();
  }

  #dropOldest(): void {
    const quiet = this.#queue.findIndex(({ isQuiet }) => isQuiet);
    this.#drop(Math.max(0, quiet));
  }

  #drop(index: number): void {
    const [dropped] = this.#queue.splice(index, 1);
    if (!dropped) return;
    this.#leftOut(dropped, this.#queue[index]);
    this.#bufferedMs -= dropped.durationMs;
    this.#endMs! -= dropped.durationMs;
    this.#correctedMs -= dropped.durationMs;
    this.#aheadOfMessageMs -= dropped.durationMs;
    this.#moved(-dropped.durationMs);
  }

  #leftOut({ durationMs, gapMs }: P, next: P | undefined): void {
    this.#droppedMs += durationMs;
    this.#droppedPackets += 1;
    // A pause before what is left out is a pause all the same.
    if (next) next.gapMs += gapMs;
  }

  /** Follows a clock that is a little off: what is steadily early or late becomes what is expected. */
  #slew(windowEnded: boolean): void {
    if (!windowEnded) return;
    const { minMs, maxMs } = this.#spread;
    const offMs = minMs > 0 ? minMs : maxMs < 0 ? maxMs : 0;
    const slewMs = -Math.sign(offMs) * Math.min(Math.abs(offMs), SLEW_MS_PER_WINDOW);
    this.#endMs! += slewMs;
    this.#moved(slewMs);
    this.#correctedMs += slewMs;
    this.#drift += (-this.#correctedMs / WINDOW_MS - this.#drift) * DRIFT_SMOOTHING;
    this.#correctedMs = 0;
  }

  #moved(byMs: number): void {
    this.#spread.move(byMs);
    for (let i = 0; i < STEADY_MESSAGES; i += 1) this.#recentAheadMs[i]! += byMs;
  }
}

/** The least and the most of the last one to two windows. */
class Spread {
  #minBefore = Infinity;
  #maxBefore = -Infinity;
  #min = Infinity;
  #max = -Infinity;
  #endsAtMs: number | undefined;
  #isFull = false;

  /** Nothing is known before a window has passed. */
  get minMs(): number {
    return this.#isFull ? Math.min(this.#minBefore, this.#min) : -Infinity;
  }

  get maxMs(): number {
    return this.#isFull ? Math.max(this.#maxBefore, this.#max) : Infinity;
  }

  /** @returns whether a window has ended */
  tick(nowMs: number): boolean {
    this.#endsAtMs ??= nowMs + WINDOW_MS;
    if (nowMs < this.#endsAtMs) return false;
    this.#endsAtMs = nowMs + WINDOW_MS;
    this.#minBefore = this.#min;
    this.#maxBefore = this.#max;
    this.#min = Infinity;
    this.#max = -Infinity;
    this.#isFull = Number.isFinite(this.#minBefore);
    return this.#isFull;
  }

  add(value: number): void {
    this.#min = Math.min(this.#min, value);
    this.#max = Math.max(this.#max, value);
  }

  move(by: number): void {
    this.#minBefore += by;
    this.#maxBefore += by;
    this.#min += by;
    this.#max += by;
  }
}
