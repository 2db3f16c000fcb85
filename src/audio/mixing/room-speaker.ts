import type { MediaPacket } from '../../rtp/packet.ts';
import { counters } from '../../counters.ts';
import { Reorderer } from '../../rtp/reorderer.ts';
import { Splice } from '../../rtp/splice.ts';
import { FRAME_SAMPLES } from '../format.ts';
import { carriesCopy, opusPacketSamples } from '../opus-packet.ts';
import { Arrivals, Punctuality } from './arrivals.ts';
import { forwardFrame } from './forward-frame.ts';
import { maxAwaitedMs } from './late-beginning.ts';
import { FrameSource, type ListenerLeads } from './listener-leads.ts';
import { LongPackets } from './long-packets.ts';
import { type HeardSpeaker, type Listener, replaced } from './subscriptions.ts';
import type { AddedSpeaker, SpeakerId } from './mix-plan.ts';
import { SpeakerHistory } from './packet-history.ts';
import { type PastPacket, PastPackets } from './past-packet.ts';
import { UnmutedBeginning } from './unmuted-beginning.ts';

/** End of a pause that is mixed with the word after it: as much as a mix waits for anyway. */
const PREROLL_SAMPLES = FRAME_SAMPLES;
/** Age beyond which packets do not belong to the word. */
const MAX_PREROLL_AGE_MS = 100;

/** Time without a packet after which a speaker that is muted on another node has really stopped; for packets of over 20 ms, which last up to 120 ms. */
const ABSENT_MS = 100;
const ABSENT_OF_LONG_MS = 250;

const NOBODY: ReadonlySet<Listener> = new Set();

/** Speaker of a room: its stream in order, the history of it, and the listeners that are sent its packets as they are. */
export class RoomSpeaker implements HeardSpeaker {
  readonly id: SpeakerId;
  readonly peer: string;
  readonly number: number;
  /** Joins successive streams of the speaker into one. */
  readonly splice = new Splice();
  readonly arrivals = new Arrivals();
  readonly source = new FrameSource();
  readonly #leads: ListenerLeads;
  readonly #stream = new Reorderer();
  /** Number of streams that have begun without an announcement. */
  #streams = 0;
  readonly #history = new SpeakerHistory();
  readonly #past = new PastPackets();
  /** True if the last packet went to a listener that hears this speaker alone. */
  #isHeard = false;
  followers: ReadonlySet<Listener> = new Set();
  apartFollowers: ReadonlySet<Listener> = new Set();
  readonly #long = new LongPackets();
  isPlayed = false;
  /** Time since which a listener that hears this speaker in a mix has waited for a pause, ms; undefined if none does. */
  awaitedSinceMs: number | undefined;
  /** Time at which this speaker last talked, ms. */
  talkedAtMs = -Infinity;
  needsMix = false;
  readonly punctuality = new Punctuality();
  readonly apart = this.punctuality.queue;
  /** True if its producer is paused: packets that still come are withheld. */
  isMuted = false;
  /** True if the last state of its node says that it is muted, until its packets come again after a gap. */
  isMutedElsewhere = false;
  /** True if its last packet was withheld: only decoders that begin later are given it. */
  isWithheld = false;
  readonly #unmuted = new UnmutedBeginning();

  constructor(id: SpeakerId, peer: string, number: number, leads: ListenerLeads) {
    this.id = id;
    this.peer = peer;
    this.number = number;
    this.#leads = leads;
  }

  /** True before its first packet has been sent on: a decoder that has heard nothing yet can begin with it. */
  get isNew(): boolean {
    return this.#history.last === undefined;
  }

  /**
   * True if a listener waits for a pause that does not come: music has none.
   * @param isAlike true if the next sound resembles the last one heard
   */
  isAwaitedTooLong(nowMs: number, isAlike: boolean): boolean {
    const { last } = this.#history;
    if (this.awaitedSinceMs === undefined || !last) return false;
    return nowMs - this.awaitedSinceMs >= maxAwaitedMs(last.payload, isAlike);
  }

  /** Packets that have not been taken: they came ahead of a missing one. */
  get waiting(): Iterable<MediaPacket> {
    return this.#stream.waiting;
  }

  /** True if its packets are longer than a tick. */
  get isLong(): boolean {
    return this.#long.isLong;
  }

  /** Notes the length of a packet. @returns true if it is the first one that is longer than a tick */
  noteLength(durationSamples: number): boolean {
    return this.#long.note(durationSamples, this.isPlayed);
  }

  /** Adds a packet. @returns false if it is too late or a duplicate */
  insert(packet: MediaPacket, nowMs: number, durationSamples?: number): boolean {
    this.#past.note(packet, durationSamples);
    this.arrivals.add(packet.timestamp, nowMs);
    const isInTime = this.#stream.insert(packet, nowMs);
    const streams = this.#stream.streams + this.splice.restarts;
    // Another stream, from another encoder: its packets do not depend on earlier ones.
    if (streams !== this.#streams) this.#history.clear();
    this.#streams = streams;
    return isInTime;
  }

  /**
   * Sends the packets that are next in order: to listeners with `delivery=forward`, and to those that hear this speaker as sent, unless
   * they hear it at the pace of a mix; not those that come too early. Only the end of a long gap is concealed.
   * @param onLost called for each packet in place of which an empty one goes out
   */
  forward(isPause: boolean, nowMs: number, onLost: (samples: number) => void): void {
    for (let past = this.#takeNext(isPause, nowMs); past; past = this.#takeNext(isPause, nowMs)) {
      const isOver = past.isLost && this.#stream.isOver(past.durationSamples);
      const isEarly = this.punctuality.isEarly(nowMs);
      if (!this.isPlayed) {
        this.#history.passAll();
        this.#isHeard = this.followers.size > 0 && !isEarly;
        if (!isOver && !isEarly) this.#send(past, nowMs);
        if (past.isLost && !isOver && !isEarly) onLost(past.durationSamples);
      }
      if (!this.#isSent || isOver) continue;
      if (isEarly) counters.dropped.too_fast += 1;
      else this.#forwardApart(past, nowMs);
    }
  }

  /** True if packets are sent to listeners as they come. */
  get #isSent(): boolean {
    return !this.isPlayed || this.apartFollowers.size > 0;
  }

  #send(past: PastPacket, nowMs: number): void {
    this.#leads.sent(this.source, past.durationSamples, nowMs);
    const isChecked = this.#leads.mayLeaveOut(past.isSpare);
    for (const listener of this.followers) {
      if (isChecked && this.#leads.leavesOut(listener, this.source, past, nowMs)) continue;
      listener.deliver(past.payload);
    }
  }

  /** True if a packet that is not muted itself, of CELT or SILK, must still be withheld. */
  staysWithheld(timestamp: number, isCelt: boolean, nowMs: number): boolean {
    // The mute state takes another path: a mute or an unmute may come later than the packets.
    if (this.isMutedElsewhere && this.#isAbsent(nowMs)) this.setMutedElsewhere(false, nowMs, false);
    if (this.isMuted || this.#unmuted.isWarmUp(timestamp, isCelt, nowMs)) return true;
    return this.isWithheld && this.isPlayed;
  }

  /** Notes that the speaker is muted on another node, or no longer muted. Parameters as for {@link unmute}. */
  setMutedElsewhere(isMuted: boolean, nowMs: number, isNew: boolean): void {
    if (this.isMutedElsewhere && !isMuted && this.#isAbsent(nowMs)) this.unmute(isNew, nowMs);
    this.isMutedElsewhere = isMuted;
  }

  #isAbsent(nowMs: number): boolean {
    const absentMs = this.isLong ? ABSENT_OF_LONG_MS : ABSENT_MS;
    return nowMs - (this.arrivals.lastMs ?? -Infinity) >= absentMs;
  }

  /** Prepares for the first packet of a stream that began before, and whose packets come here since `sinceMs`. */
  enterStream(sinceMs: number): void {
    this.isMuted = false;
    this.#unmuted.enter(sinceMs);
  }

  /** Handles the unmute of a sender whose packets did not come here: decoders are given some first, unless its stream begins anew (`isNew`). */
  unmute(isNew: boolean, nowMs: number): void {
    this.isMuted = false;
    this.#unmuted.unmute(isNew, nowMs);
  }

  /** Adds a packet that no listener may hear: only decoders that begin later need it. */
  withhold(packet: MediaPacket, nowMs: number, durationSamples: number): void {
    this.isWithheld = true;
    this.insert(packet, nowMs, durationSamples);
    while (this.#takeNext(false, nowMs)) {
      if (this.isPlayed) continue;
      this.#history.passAll();
      this.#isHeard = false;
    }
  }

  /** Moves the next packet of the stream into the history. @returns undefined while it has not arrived */
  #takeNext(isPause: boolean, nowMs: number): PastPacket | undefined {
    const before = this.#history.last;
    const next = this.#stream.take(nowMs);
    if (!next) return undefined;
    // Before the first packet none can be missing.
    if (next === 'lost' && !before) return this.#takeNext(isPause, nowMs);
    const state = { atMs: nowMs, isPause, isWithheld: this.isWithheld };
    const past = this.#past.take(next, before, state);
    const hasCopy = !past.isLost && before?.isLost && carriesCopy(past.payload);
    if (hasCopy) this.punctuality.noteCopy(nowMs);
    this.#history.push(past);
    return past;
  }

  /** Notes that a packet has come, before it is sent. @returns true if {@link needsMix} has changed */
  noteArrival(nowMs: number): boolean {
    if (this.#isSent) this.punctuality.noteArrival(nowMs);
    return this.updateNeedsMix(nowMs);
  }

  /** Updates {@link needsMix}. @returns true if it has changed */
  updateNeedsMix(nowMs: number): boolean {
    const before = this.needsMix;
    this.needsMix = this.punctuality.needsMix(nowMs);
    return this.needsMix !== before;
  }

  /** Forwards a packet as it is, unless it is left out. @param before listeners that have received it already */
  #forwardApart(past: PastPacket, nowMs: number, before = NOBODY): void {
    if (this.followers.size === 0 && this.apartFollowers.size === 0) return;
    // A packet that some have received has been counted for all.
    if (before.size === 0 && !this.punctuality.take(past, nowMs)) return;
    const frame = forwardFrame(this.number, past.payload);
    for (const listener of this.apartFollowers) {
      if (!before.has(listener)) listener.deliver(frame, past.audioLevel);
    }
  }

  /** Returns the last packets, for a decoder that begins after them. */
  get recent(): Buffer[] {
    return this.#history.forDecoder;
  }

  /** Returns the state from which a mix begins to play this speaker. */
  beginPlaying(nowMs: number): AddedSpeaker {
    const last = this.#history.last;
    const endsPause = last?.isPause && nowMs - last.atMs < MAX_PREROLL_AGE_MS;
    const { sinceWithheldSamples } = this.#history;
    return {
      id: this.id,
      recent: this.recent,
      // A listener that hears a pause end in a mix needs no transition.
      isHeard: this.#isHeard && !endsPause,
      next: this.#stream.next,
      pace: this.arrivals.pace,
      prerollSamples: endsPause ? Math.min(PREROLL_SAMPLES, sinceWithheldSamples) : 0,
    };
  }

  /**
   * Notes a packet that the mixes have reached.
   * @param followers listeners that are sent it: those when its tick began
   */
  passed(payload: Buffer, nowMs: number, followers: ReadonlySet<Listener>): void {
    if (followers.size > 0) {
      const past = followers === this.followers ? undefined : followers;
      this.#leads.sent(this.source, opusPacketSamples(payload) ?? 0, nowMs, past);
    }
    this.#history.pass(payload);
  }

  /** Sends the last packet that the mixes have reached, of a pause, to listeners that heard it in a mix: it prepares their decoders for the next word. */
  repeatLast(
    before: ReadonlySet<Listener>,
    apartBefore: ReadonlySet<Listener>,
    nowMs: number,
  ): void {
    const last = this.#history.lastPassed;
    if (!last || last.isWithheld) return;
    this.#leads.sentBefore(this.source, last.durationSamples, nowMs);
    for (const listener of this.followers)
      if (!before.has(listener)) listener.deliver(last.payload);
    this.#forwardApart({ ...last, isSpare: false }, nowMs, apartBefore);
  }

  /**
   * Ends the playout: packets that the mixes have not reached are sent at once.
   * @param before listeners that hear this speaker separately, and so have received these packets already
   */
  endPlaying(before: ReadonlySet<Listener>, nowMs: number): void {
    for (const past of this.#history.rest.filter(({ isWithheld }) => !isWithheld)) {
      if (this.punctuality.isEarly(nowMs)) {
        counters.dropped.too_fast += 1;
        continue;
      }
      const needed = { ...past, isSpare: false };
      this.#send(needed, nowMs);
      this.#forwardApart(needed, nowMs, before);
    }
    this.#history.passAll();
    this.#isHeard = this.followers.size > 0;
  }

  /** Replaces a listener whose subscription changed but that still hears the same packets. */
  replace(before: Listener, after: Listener): void {
    this.followers = replaced(this.followers, before, after);
    this.apartFollowers = replaced(this.apartFollowers, before, after);
  }
}
