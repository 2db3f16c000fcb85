import { BurstHabit } from './burst-habit.ts';
import { LeadHistory, STEADILY_LATE_MS, WINDOW_MS } from './lead-history.ts';

/**
 * A paced packet: its duration, and true if it is too quiet to be missed. The pacer sets the silence before it, and whether it can be
 * left out because it lies in a pause.
 */
type Packet = { durationMs: number; isQuiet: boolean; gapMs: number; isSpare: boolean };

/** Lead up to which audio goes out at once, ms; audio further ahead waits. */
const EARLY_MS = 40;
/** Maximum lead of an even sender's audio, ms: beyond it the oldest waiting audio is dropped, silence first. */
const MAX_AHEAD_MS = 200;
/** Maximum lead for a sender that sends, or may send, in pieces of up to 2 s, ms. */
const MAX_AHEAD_OF_BURSTS_MS = 2500;
/** Maximum lead with which further packets of a message are accepted, ms; the rest of the message is dropped. */
const MAX_WAITING_MS = 10_000;
/** Time after the beginning of a run, ms, before which its lead does not count as excess: the burst is still arriving. */
const BURST_RISE_MS = 200;
/** First margin of a bursty sender's delay over the lateness of its pieces, as a share of their length. */
const BURST_MARGIN = 0.03;
/** Margin over the lateness of a piece for which the delay was too short, ms. */
const BURST_MARGIN_AGAIN_MS = 100;
/** Maximum share of padding in pieces: a sender that gains more on real time is too fast. */
const MOST_PADDING = 0.08;
/** Maximum number of pieces over which the growth of their lead is measured. */
const TREND_PIECES = 16;
/** Minimum share of the spread of their leads that growth must explain. */
const LEAST_TREND = 0.75;
/** Delay beyond the needed one, ms, above which any quiet packet is left out to reduce it, also within a word. */
const MUCH_DELAY_MS = 200;
/** Number of the last pieces from whose leads the sender's clock is estimated. */
const TIMED_PIECES = 4;
/** Maximum delay that packets are given because they were held before {@link Pacer.push}, ms. */
const MAX_HELD_MS = 500;
/** Maximum of that delay for a sender of pieces, ms: its format may be known only with the third piece of 2 s, or later if one is late. */
const MAX_HELD_OF_BURSTS_MS = 5000;
/** Lateness of a packet after a quiet one from which its sender has paused, ms. */
const PAUSE_AFTER_QUIET_MS = 40;
/** Lateness of a packet after any other from which its sender has paused, ms. */
const PAUSE_MS = 400;
/** Lateness below which the cause may be a slow clock, ms; more means a pause. */
const MOST_CORRECTED_MS = 100;
/** Maximum correction, as a share of the time that has passed: receivers follow a clock that is off by one per cent. */
const MOST_SLEW = 0.01;
/** Maximum time for which one correction is made, ms: a piece that comes later than this is late for another reason. */
const MAX_SLEWED_MS = 2500;
/** Weight of a window's drift in the running mean. */
const DRIFT_SMOOTHING = 0.05;
/** Minimum duration of quiet audio that counts as a pause, ms: less may be the closure before a plosive, where a packet left out shortens a word. */
const LEAST_PAUSE_MS = 120;
/** Maximum time for which audio that is steadily ahead is kept until a pause, in which dropping it is not heard, ms. */
const AWAIT_PAUSE_MS = 3000;
/** Maximum lead, ms, with which audio is kept until a pause: `FlowWatch` counts 150 ms and more as too fast. */
const MOST_AWAITING_MS = 145;
/** Maximum growth of the lead while audio is kept until a pause, ms: a sender whose lead grows by more is too fast. */
const MOST_GROWTH_MS = 10;
/** Steady lead above which audio is dropped in a pause, ms. */
const AHEAD_QUIET_MS = 30;
/** Steady lead, ms, above which audio is dropped also without a pause, after {@link AWAIT_PAUSE_MS} at the latest. */
const AHEAD_LOUD_MS = 60;
/** Steady lag from which a gap is inserted before a quiet packet, ms. */
const BEHIND_QUIET_MS = 20;

/**
 * Compares a sender's audio with real time. A WebSocket client sends no timestamps, so the duration of its audio is its only
 * clock: the pacer distinguishes pauses (the RTP timestamp must jump) from stalls (it must not), releases
 * bursts at the pace at which they are heard, follows a clock that is slightly off, and bounds a client's
 * lead. Pure.
 */
export class Pacer<P extends Packet> {
  readonly #queue = new PacketQueue<P>();
  /** Time at which all pushed audio will have been heard, on the clock of `nowMs`. */
  #endMs: number | undefined;
  /** Delay of everything: because the first audio had been held, or because pieces come late. */
  #delayMs = 0;
  /** Minimum delay that a bursty sender needs. */
  #neededDelayMs = 0;
  /** Delay with which the last packet came here. */
  #heldMs = 0;
  /** True after a packet that was held for longer than those of an even sender may be: later ones show whether the sender sends in pieces. */
  #isLongHeld = false;
  /** True if the delay remains from bursts that have ended. */
  #isDelayOfBursts = false;
  readonly #habit = new BurstHabit();
  /** Leads of the last pieces at their beginning, the oldest first. */
  readonly #piecesAheadMs: number[] = [];
  /** Minimum lead of the messages since a burst. */
  #lowestAheadMs = Infinity;
  #runAtMs = 0;
  #messageAtMs: number | undefined;
  #aheadOfMessageMs = 0;
  #wasQuiet = true;
  /** Duration of the quiet audio that came last. */
  #quietMs = 0;
  /** Present while audio waits for a pause to be dropped: since when, and its lead then, ms. */
  #awaitsPause: { sinceMs: number; leadMs: number } | undefined;
  readonly #leads = new LeadHistory();
  #droppedMs = 0;
  #excessMs = 0;
  #excessPackets = 0;
  #correctedMs = 0;
  /** Maximum duration of audio that is ahead because the last pauses may have been stalls, ms: it says nothing about the sender's clock. */
  #heldUpMs = 0;
  #drift = 0;

  /** Duration of waiting audio. */
  get bufferedMs(): number {
    return this.#queue.durationMs;
  }

  /** Lead of the last message at its beginning, less the audio released since. */
  aheadMs(nowMs: number): number {
    return Math.min(this.#aheadOfMessageMs, (this.#endMs ?? nowMs) - nowMs);
  }

  /** Deviation of the sender's clock from this one, parts per million; positive if it is faster. */
  get driftPpm(): number {
    return this.#drift * 1e6;
  }

  /** Duration of all dropped audio, with the silence that was left out to shorten the delay. */
  get droppedMs(): number {
    return this.#droppedMs;
  }

  /** Duration of the audio dropped because it came faster than real time. */
  get excessMs(): number {
    return this.#excessMs;
  }

  /** Number of packets dropped because they came faster than real time. */
  get excessPackets(): number {
    return this.#excessPackets;
  }

  /**
   * Adds a packet that arrived at `atMs`; packets of one message have one arrival time, and the bound never cuts them.
   * @param nowMs later than `atMs` if the packet has been held until now: then it is released at its pace, and later packets
   *   with the same delay, until a pause, or dropped silence, has compensated for it
   */
  push(packet: P, atMs: number, nowMs = atMs): void {
    this.#endMs ??= atMs;
    const isNewMessage = atMs !== this.#messageAtMs;
    let delayGrowsMs = 0;
    if (isNewMessage) {
      this.#messageAtMs = atMs;
      delayGrowsMs = this.#followHabit(atMs);
      packet.gapMs = this.#keepPace(packet, atMs);
    } else if (this.#endMs - atMs > MAX_WAITING_MS) {
      this.#countExcess(packet);
      this.#leftOut(packet, this.#queue.length);
      return;
    }
    this.#habit.add(packet.durationMs);
    this.#endMs += packet.gapMs + packet.durationMs;
    this.#hold(packet, nowMs - atMs);
    // A packet that is released later than the end of the previous one is heard after a pause.
    packet.isSpare = packet.isQuiet && this.#quietMs >= LEAST_PAUSE_MS;
    this.#quietMs = packet.isQuiet ? this.#quietMs + packet.durationMs : 0;
    this.#queue.push(packet);
    if (delayGrowsMs > 0) this.#queue.addGap(0, delayGrowsMs);
    this.#wasQuiet = packet.isQuiet;
    if (isNewMessage) this.#dropExcess(atMs);
  }

  /** Returns the next packet that is due. */
  take(nowMs: number): P | undefined {
    for (;;) {
      const head = this.#queue.at(0);
      if (!head || this.#endMs === undefined) return undefined;
      const beginsMs = this.#endMs - this.bufferedMs - this.#queue.laterGapsMs;
      if (beginsMs + this.#delayMs > nowMs + EARLY_MS) return undefined;
      this.#queue.remove(0);
      // Packets that are held for as long again still need the delay.
      const spareMs = this.#delayMs - Math.max(this.#neededDelayMs, this.#heldMs);
      const isSpare = head.isSpare || (head.isQuiet && spareMs > MUCH_DELAY_MS);
      if (!isSpare || spareMs < head.durationMs) return head;
      this.#delayMs -= head.durationMs;
      this.#leftOut(head, 0);
    }
  }

  #hold(packet: P, heldMs: number): void {
    const mostMs = this.#isEven ? MAX_HELD_MS : MAX_HELD_OF_BURSTS_MS;
    this.#heldMs = heldMs > EARLY_MS ? Math.min(heldMs, mostMs) : 0;
    if (packet.gapMs > 0 && this.#queue.length === 0) {
      const neededMs = Math.max(this.#neededDelayMs, Math.min(this.#delayMs, this.#heldMs));
      packet.gapMs = Math.max(0, packet.gapMs - (this.#delayMs - neededMs));
      this.#delayMs = neededMs;
    }
    this.#delayMs = Math.max(this.#delayMs, this.#heldMs);
    const wasLongHeld = this.#isLongHeld;
    this.#isLongHeld = heldMs > MAX_HELD_MS;
    // The last held messages have come: if they were no pieces, the delay is that of an even
    // sender.
    if (wasLongHeld && !this.#isLongHeld && this.#habit.habit !== 'bursty') {
      this.#delayMs = Math.min(this.#delayMs, MAX_HELD_MS);
    }
  }

  /**
   * Updates the pacing of the sender, and sets the delay that it needs.
   * @returns increase of the delay with this message, ms
   */
  #followHabit(atMs: number): number {
    const aheadMs = this.#endMs! - atMs;
    const arrival = this.#habit.arrive(atMs);
    if (arrival === undefined) {
      if (atMs - this.#runAtMs > BURST_RISE_MS) {
        this.#lowestAheadMs = Math.min(this.#lowestAheadMs, aheadMs);
      }
      return 0;
    }
    if (arrival === 'stall') this.#dropLead();
    const periodMs = atMs - this.#runAtMs;
    this.#runAtMs = atMs;
    this.#lowestAheadMs = Infinity;
    if (this.#habit.habit !== 'bursty') this.#endBursts();
    else if (arrival === 'piece') return this.#timePiece(aheadMs, periodMs);
    return 0;
  }

  /** Handles audio that has been ahead for longer than a piece lasts: its lead is excess. */
  #dropLead(): void {
    const excessMs = Math.min(this.#lowestAheadMs, this.bufferedMs);
    for (let droppedMs = 0; excessMs - droppedMs > AHEAD_LOUD_MS;) {
      droppedMs += this.#dropOldest();
    }
  }

  /**
   * Handles the first message after a piece: follows the sender's clock, and delays everything by the lateness of pieces.
   * @returns increase of the delay, ms
   */
  #timePiece(aheadMs: number, periodMs: number): number {
    const pieces = this.#piecesAheadMs;
    pieces.push(aheadMs);
    if (pieces.length > TREND_PIECES) pieces.shift();
    const last = pieces.slice(-TIMED_PIECES);
    if (last.length === TIMED_PIECES) {
      const leastMs = Math.min(...last);
      this.#slewBy(leastMs, Math.max(...last), periodMs);
      // The least lead of pieces with padding is the oldest.
      const grownMs = (TIMED_PIECES - 1) * growthOf(pieces);
      this.#dropPadding(leastMs + grownMs, periodMs);
    }
    // After a pause no audio is late.
    const lateMs = aheadMs > -PAUSE_MS ? Math.max(0, -aheadMs) : 0;
    const isFirst = this.#neededDelayMs === 0;
    if (!isFirst && lateMs <= this.#neededDelayMs) return 0;
    const marginMs = isFirst ? periodMs * BURST_MARGIN : BURST_MARGIN_AGAIN_MS;
    this.#neededDelayMs = EARLY_MS + lateMs + marginMs;
    const growsMs = Math.max(0, this.#neededDelayMs - this.#delayMs);
    this.#delayMs += growsMs;
    return growsMs;
  }

  /** Drops what pieces hold beyond their time: each that is a file of its own has the padding of its encoder. */
  #dropPadding(aheadMs: number, periodMs: number): void {
    const mostMs = Math.min(aheadMs - AHEAD_LOUD_MS, periodMs * MOST_PADDING);
    for (let droppedMs = 0; droppedMs < mostMs;) droppedMs += this.#dropOldest();
  }

  #endBursts(): void {
    if (this.#neededDelayMs === 0) return;
    this.#neededDelayMs = 0;
    this.#isDelayOfBursts = true;
    this.#piecesAheadMs.length = 0;
  }

  /** @returns pause of the sender before this message, ms */
  #keepPace(packet: P, atMs: number): number {
    const hasWindowEnded = this.#leads.tick(atMs);
    if (hasWindowEnded && this.#isEven) {
      this.#slewBy(this.#leads.minMs, this.#leads.maxMs, WINDOW_MS);
      this.#shortenDelay();
    }
    const aheadMs = this.#endMs! - atMs;
    this.#aheadOfMessageMs = aheadMs;
    this.#leads.add(aheadMs);
    const gapMs = this.#pauseBefore(packet, -aheadMs);
    if (gapMs > 0) this.#moved(gapMs);
    return gapMs;
  }

  /** True if the sender is even: its early or late messages are not pieces of a burst. */
  get #isEven(): boolean {
    return this.#habit.habit === 'even';
  }

  #pauseBefore(packet: P, lateMs: number): number {
    // The delay covers this lateness.
    if (lateMs <= this.#neededDelayMs) return 0;
    if (lateMs >= PAUSE_MS || (this.#wasQuiet && lateMs >= PAUSE_AFTER_QUIET_MS)) {
      this.#heldUpMs += lateMs;
      return lateMs;
    }
    const steadilyLateMs = lateMs < STEADILY_LATE_MS ? undefined : this.#leads.steadilyLateMs;
    const behindMs = steadilyLateMs ?? -this.#leads.maxMs;
    const isPause = behindMs >= STEADILY_LATE_MS;
    const isSlowClock = packet.isQuiet && behindMs >= BEHIND_QUIET_MS && behindMs <= lateMs;
    if (!isPause && !isSlowClock) return 0;
    if (behindMs < MOST_CORRECTED_MS) this.#correctedMs += behindMs;
    return behindMs;
  }

  /** Drops audio: of a sender far ahead as much as necessary, of one that is steadily ahead a packet at a time. */
  #dropExcess(nowMs: number): void {
    const newest = this.#queue.at(-1)!;
    const { minMs } = this.#leads;
    if (!this.#isEven || minMs <= AHEAD_QUIET_MS) {
      this.#awaitsPause = undefined;
    } else if (newest.isSpare) {
      this.#awaitsPause = undefined;
      this.#drop(this.#queue.length - 1);
    } else if (minMs > AHEAD_LOUD_MS) {
      this.#awaitsPause ??= { sinceMs: nowMs, leadMs: minMs };
      const { sinceMs, leadMs } = this.#awaitsPause;
      const mostMs = Math.min(MOST_AWAITING_MS, leadMs + MOST_GROWTH_MS);
      if (minMs > mostMs || nowMs - sinceMs >= AWAIT_PAUSE_MS) this.#dropOldest();
    }
    const mostMs = this.#isEven ? MAX_AHEAD_MS : MAX_AHEAD_OF_BURSTS_MS;
    while (this.#aheadOfMessageMs > mostMs && this.#queue.length > 0) this.#dropOldest();
  }

  /** Reduces a delay that is no longer needed, a packet at a time. */
  #shortenDelay(): void {
    const oldest = this.#queue.at(0);
    if (!this.#isDelayOfBursts || !oldest) return;
    if (this.#delayMs < oldest.durationMs) {
      this.#isDelayOfBursts = false;
      return;
    }
    this.#queue.remove(0);
    this.#delayMs -= oldest.durationMs;
    this.#leftOut(oldest, 0);
  }

  /** @returns the duration of dropped audio */
  #dropOldest(): number {
    const index = this.#queue.indexOfLeastMissed();
    const durationMs = this.#queue.at(index)?.durationMs ?? Infinity;
    this.#drop(index);
    return durationMs;
  }

  #drop(index: number): void {
    const dropped = this.#queue.remove(index);
    if (!dropped) return;
    this.#countExcess(dropped);
    this.#leftOut(dropped, index);
    this.#endMs! -= dropped.durationMs;
    this.#takenBack(dropped.durationMs);
    this.#aheadOfMessageMs -= dropped.durationMs;
    this.#moved(-dropped.durationMs);
  }

  #countExcess({ durationMs }: P): void {
    this.#excessMs += durationMs;
    this.#excessPackets += 1;
  }

  /** @param next index in the queue of the packet after the dropped one */
  #leftOut({ durationMs, gapMs }: P, next: number): void {
    this.#droppedMs += durationMs;
    // A pause before dropped audio is still a pause.
    this.#queue.addGap(next, gapMs);
  }

  /** Follows a clock that is slightly off: a steady lead or lag becomes the expected time. */
  #slewBy(minMs: number, maxMs: number, windowMs: number): void {
    const offMs = minMs > 0 ? minMs : maxMs < 0 ? maxMs : 0;
    const mostMs = MOST_SLEW * Math.min(windowMs, MAX_SLEWED_MS);
    const slewMs = -Math.sign(offMs) * Math.min(Math.abs(offMs), mostMs);
    this.#endMs! += slewMs;
    this.#moved(slewMs);
    if (slewMs > 0) this.#correctedMs += slewMs;
    else this.#takenBack(-slewMs);
    // Audio that was held up is ahead until it has been taken back.
    this.#heldUpMs = Math.min(this.#heldUpMs, Math.max(0, maxMs));
    this.#drift += (-this.#correctedMs / windowMs - this.#drift) * DRIFT_SMOOTHING;
    this.#correctedMs = 0;
  }

  /** Notes that audio which was ahead has been taken back: as far as it was not held up, the sender's clock is fast. */
  #takenBack(ms: number): void {
    const heldUpMs = Math.min(ms, this.#heldUpMs);
    this.#heldUpMs -= heldUpMs;
    this.#correctedMs -= ms - heldUpMs;
  }

  #moved(byMs: number): void {
    this.#leads.move(byMs);
    this.#lowestAheadMs += byMs;
    for (let i = 0; i < this.#piecesAheadMs.length; i += 1) this.#piecesAheadMs[i]! += byMs;
  }
}

/**
 * Returns the growth of leads from one piece to the next, as the mean of the later half shows it beside that of the
 * earlier; 0 if they fall, or if jitter explains most of their spread.
 */
function growthOf(leadsMs: readonly number[]): number {
  const pieces = leadsMs.length;
  const half = pieces >> 1;
  const sumMs = (from: number, to: number) =>
    leadsMs.slice(from, to).reduce((sum, leadMs) => sum + leadMs, 0);
  const growthMs = (sumMs(pieces - half, pieces) - sumMs(0, half)) / half / (pieces - half);
  const spreadMs = Math.max(...leadsMs) - Math.min(...leadsMs);
  return growthMs > 0 && growthMs * (pieces - 1) >= LEAST_TREND * spreadMs ? growthMs : 0;
}

/** Packets in order, with the sums of their durations and gaps. */
class PacketQueue<P extends Packet> {
  readonly #packets: P[] = [];
  #quietPackets = 0;
  #durationMs = 0;
  #gapsMs = 0;

  get length(): number {
    return this.#packets.length;
  }

  get durationMs(): number {
    return this.#durationMs;
  }

  /** Sum of the gaps behind the first packet. */
  get laterGapsMs(): number {
    return this.#gapsMs - (this.#packets[0]?.gapMs ?? 0);
  }

  at(index: number): P | undefined {
    return this.#packets.at(index);
  }

  push(packet: P): void {
    this.#packets.push(packet);
    this.#quietPackets += packet.isQuiet ? 1 : 0;
    this.#durationMs += packet.durationMs;
    this.#gapsMs += packet.gapMs;
  }

  /** Adds to the gap before the packet at `index`, if there is one. */
  addGap(index: number, gapMs: number): void {
    const packet = this.#packets[index];
    if (!packet) return;
    packet.gapMs += gapMs;
    this.#gapsMs += gapMs;
  }

  remove(index: number): P | undefined {
    const removed = index === 0 ? this.#packets.shift() : this.#packets.splice(index, 1)[0];
    this.#quietPackets -= removed?.isQuiet ? 1 : 0;
    this.#durationMs -= removed?.durationMs ?? 0;
    this.#gapsMs -= removed?.gapMs ?? 0;
    return removed;
  }

  /** Returns the index of the packet to drop first: the oldest of silence, or else the oldest. */
  indexOfLeastMissed(): number {
    return this.#quietPackets > 0 ? this.#packets.findIndex(({ isQuiet }) => isQuiet) : 0;
  }
}
