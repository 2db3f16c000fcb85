import type { MediaPacket } from '../../rtp/packet.ts';
import { Reorderer } from '../../rtp/reorderer.ts';
import { Splice } from '../../rtp/splice.ts';
import { FRAME_SAMPLES } from '../format.ts';
import { carriesCopy, emptyOpusPacket, opusPacketSamples } from '../opus-packet.ts';
import { Arrivals } from './arrivals.ts';
import { forwardFrame } from './forward-frame.ts';
import { maxAwaitedMs } from './late-beginning.ts';
import type { HeardSpeaker, Listener } from './subscriptions.ts';
import type { AddedSpeaker, MixPacket, SpeakerId } from './mix-plan.ts';
import { PacketHistory } from './packet-history.ts';

/** The end of a pause goes into a mix with the word after it: as much as a mix waits for anyway. */
const PREROLL_SAMPLES = FRAME_SAMPLES;
/** Older packets have nothing to do with the word. */
const MAX_PREROLL_AGE_MS = 100;

/** Length of sound after which a decoder that began in the middle of a stream is accurate. */
const UNKNOWN_SAMPLES = 6 * FRAME_SAMPLES;

/** Time after the last lost packet for which its sender's network counts as lossy. */
const LOSSY_MS = 5000;

/** A packet that has come in its turn, or an empty one in place of one that is lost. */
type PastPacket = MixPacket & {
  atMs: number;
  /** It came while its sender did not talk. */
  isPause: boolean;
  isLost: boolean;
  /** It was sent to nobody: its sender was muted. */
  isWithheld: boolean;
};

/** A speaker of a room: its stream in order, the last of it, and those who are sent its packets as they are. */
export class RoomSpeaker implements HeardSpeaker {
  readonly id: SpeakerId;
  readonly peer: string;
  readonly number: number;
  /** Makes one stream of those by which it comes, one after the other. */
  readonly splice = new Splice();
  readonly arrivals = new Arrivals();
  readonly #stream = new Reorderer();
  readonly #history = new PacketHistory<PastPacket>();
  /** The last packet went out to somebody who hears this speaker alone. */
  #isHeard = false;
  /** Counts the packets of the history. */
  #count = 0;
  /** Up to which of them a mix has come, or all has gone out as it was sent. */
  #passedCount = 0;
  followers: ReadonlySet<Listener> = new Set();
  apartFollowers: ReadonlySet<Listener> = new Set();
  isLong = false;
  isPlayed = false;
  /** Since when somebody who hears it in a mix waits for a pause; undefined if nobody does. */
  awaitedSinceMs: number | undefined;
  /** When it talked last. */
  talkedAtMs = -Infinity;
  /** Packets get lost, and those after them carry copies: a mix can play these, which what is sent on as it is cannot. */
  isLossy = false;
  /** Its producer is paused: nothing is to come, and what comes all the same is withheld. */
  isMuted = false;
  /** Its last packet was withheld: only decoders that begin later hear it. */
  isWithheld = false;
  /** How much more of it decoders must hear, and nobody else, before they know the stream. */
  #unknownSamples = 0;
  /** When a copy stood in for a lost packet last. */
  #copiedAtMs = -Infinity;

  constructor(id: SpeakerId, peer: string, number: number) {
    this.id = id;
    this.peer = peer;
    this.number = number;
  }

  /** True before its first packet has been sent on: a decoder that has heard nothing yet can begin with it. */
  get isNew(): boolean {
    return this.#history.last === undefined;
  }

  /**
   * True if somebody waits for a pause that does not come: music has none.
   * @param isAlike what comes next resembles what has been heard last
   */
  isAwaitedTooLong(nowMs: number, isAlike: boolean): boolean {
    const { last } = this.#history;
    if (this.awaitedSinceMs === undefined || !last) return false;
    return nowMs - this.awaitedSinceMs >= maxAwaitedMs(last.payload, isAlike);
  }

  /** Packets that came before their turn. */
  get waiting(): Iterable<MediaPacket> {
    return this.#stream.waiting;
  }

  /** Takes in a packet; false if it is too late, or came already. */
  insert(packet: MediaPacket, nowMs: number): boolean {
    this.arrivals.add(packet.timestamp, nowMs);
    const before = this.#stream.next;
    const isInTime = this.#stream.insert(packet, nowMs);
    // Another stream, from another encoder: nothing in it leans on what came before.
    if (before !== this.#stream.next) this.#history.clear();
    return isInTime;
  }

  /**
   * Sends on what is in its turn: to those who want each speaker apart, and to those who hear this one as sent, unless they
   * hear it at the pace of a mix.
   * @param onLost is told of each packet for which an empty one goes out
   */
  forward(isPause: boolean, nowMs: number, onLost: (samples: number) => void): void {
    for (let past = this.#takeNext(isPause, nowMs); past; past = this.#takeNext(isPause, nowMs)) {
      if (!this.isPlayed) {
        this.#passedCount = this.#count;
        this.#isHeard = this.followers.size > 0;
        for (const listener of this.followers) listener.deliver(past.payload);
        if (past.isLost) onLost(past.durationSamples);
      }
      this.#forwardApart(past.payload);
    }
  }

  /** True if a packet that is not muted itself is to be withheld all the same. */
  staysWithheld(durationSamples: number): boolean {
    if (!this.isWithheld) return false;
    if (!this.isMuted && !this.isPlayed && this.#unknownSamples <= 0) return false;
    if (!this.isMuted) this.#unknownSamples -= durationSamples;
    return true;
  }

  /** The sender is unmuted, and what it said meanwhile did not come here: decoders must get to know its stream first. */
  unmute(): void {
    this.isMuted = false;
    this.#unknownSamples = UNKNOWN_SAMPLES;
  }

  /** Takes in a packet that nobody is to hear: only decoders that begin later lean on it. */
  withhold(packet: MediaPacket, nowMs: number): void {
    this.isWithheld = true;
    this.insert(packet, nowMs);
    while (this.#takeNext(false, nowMs)) {
      if (this.isPlayed) continue;
      this.#passedCount = this.#count;
      this.#isHeard = false;
    }
  }

  /** Moves the next packet of the stream into the history; undefined while it has not come. */
  #takeNext(isPause: boolean, nowMs: number): PastPacket | undefined {
    const before = this.#history.last;
    const next = this.#stream.take(nowMs);
    if (!next) return undefined;
    // Before the first packet there is nothing of which one could be missed.
    if (next === 'lost' && !before) return this.#takeNext(isPause, nowMs);
    const packet = next === 'lost' ? lostAfter(before!) : presentOf(next);
    const past = { ...packet, atMs: nowMs, isPause, isWithheld: this.isWithheld };
    if (!past.isLost && before?.isLost && carriesCopy(past.payload)) this.#copiedAtMs = nowMs;
    this.isLong ||= past.durationSamples > FRAME_SAMPLES;
    this.#history.push(past);
    this.#count += 1;
    return past;
  }

  /** Works out anew whether its network is lossy; true if that has changed. */
  noteLoss(nowMs: number): boolean {
    const isLossy = nowMs - this.#copiedAtMs < LOSSY_MS;
    const hasChanged = isLossy !== this.isLossy;
    this.isLossy = isLossy;
    return hasChanged;
  }

  #forwardApart(payload: Buffer): void {
    if (this.apartFollowers.size === 0) return;
    const frame = forwardFrame(this.number, payload);
    for (const listener of this.apartFollowers) listener.deliver(frame);
  }

  /** The last packets, for a decoder that begins after them. */
  get recent(): Buffer[] {
    return this.#history.forDecoder;
  }

  /** Returns the state from which a mix begins to play this speaker. */
  beginPlaying(nowMs: number): AddedSpeaker {
    const last = this.#history.last;
    const endsPause = last?.isPause && nowMs - last.atMs < MAX_PREROLL_AGE_MS;
    return {
      id: this.id,
      recent: this.recent,
      // A listener that hears a pause end in a mix joins on to nothing.
      isHeard: this.#isHeard && !endsPause,
      next: this.#stream.next,
      pace: this.arrivals.pace,
      prerollSamples: endsPause ? Math.min(PREROLL_SAMPLES, this.#sinceWithheldSamples) : 0,
    };
  }

  /** How much at the end of the history was not withheld. */
  get #sinceWithheldSamples(): number {
    const { packets } = this.#history;
    const from = packets.findLastIndex(({ isWithheld }) => isWithheld) + 1;
    return packets.slice(from).reduce((sum, { durationSamples }) => sum + durationSamples, 0);
  }

  /** Takes note of a packet that the mixes have come to. */
  passed(payload: Buffer): void {
    const rest = this.#rest();
    const index = rest.findIndex((past) => past.payload.equals(payload));
    this.#passedCount = this.#count - rest.length + index + 1;
  }

  /**
   * Sends the packet that the mixes have come to last once more, as sent, to listeners that have heard it in a mix: it is of a pause, and
   * their decoders are to know the stream when the next word begins.
   */
  repeatLast(before: ReadonlySet<Listener>, apartBefore: ReadonlySet<Listener>): void {
    const last = this.#history.packets[this.#history.packets.length - this.#rest().length - 1];
    if (!last) return;
    for (const listener of this.followers)
      if (!before.has(listener)) listener.deliver(last.payload);
    const frame = forwardFrame(this.number, last.payload);
    for (const listener of this.apartFollowers)
      if (!apartBefore.has(listener)) listener.deliver(frame);
  }

  /** Returns the packets that the mixes have not come to. */
  #rest(): PastPacket[] {
    const { packets } = this.#history;
    return packets.slice(Math.max(0, packets.length - (this.#count - this.#passedCount)));
  }

  /**
   * Ends being played: what the mixes have not come to goes out at once.
   * @param before who has heard this speaker apart, and so has that already
   */
  endPlaying(before: ReadonlySet<Listener>): void {
    for (const { payload } of this.#rest()) {
      for (const listener of this.followers) listener.deliver(payload);
      const frame = forwardFrame(this.number, payload);
      for (const listener of this.apartFollowers)
        if (!before.has(listener)) listener.deliver(frame);
    }
    this.#passedCount = this.#count;
    this.#isHeard = this.followers.size > 0;
  }

  /** Replaces a listener that hears in another way from now on, but the same packets. */
  replace(before: Listener, after: Listener): void {
    this.followers = replaced(this.followers, before, after);
    this.apartFollowers = replaced(this.apartFollowers, before, after);
  }
}

function replaced(listeners: ReadonlySet<Listener>, before: Listener, after: Listener) {
  return listeners.has(before) ? new Set([...listeners, after]) : listeners;
}

function presentOf({ sequenceNumber, timestamp, payload }: MediaPacket) {
  const durationSamples = opusPacketSamples(payload) ?? 0;
  return { sequenceNumber, timestamp, payload, durationSamples, isLost: false };
}

/** Returns the replacement of the packet after `before`, which is lost. */
function lostAfter(before: PastPacket) {
  return {
    sequenceNumber: (before.sequenceNumber + 1) & 0xffff,
    timestamp: (before.timestamp + before.durationSamples) >>> 0,
    payload: emptyOpusPacket(before.payload),
    durationSamples: before.durationSamples,
    isLost: true,
  };
}
