import { isSameConfiguration, joinOpusPackets, MAX_BYTES_PER_20_MS } from '../audio/opus-packet.ts';
import { counters } from '../counters.ts';
import { SAMPLES_PER_MS } from '../rtp/clock-rate.ts';
import { type Rate, TokenBucket } from '../token-bucket.ts';

/** An Opus packet of a WebSocket client. */
export type OpusPacket = {
  payload: Buffer;
  durationSamples: number;
  durationMs: number;
  audioLevel: number;
  isQuiet: boolean;
  /** True if it can be left out because it lies in a pause; set by the pacer. */
  isSpare: boolean;
  gapMs: number;
  /** True if the sender is muted. */
  isMuted: boolean;
};

/** Duration from which a packet is sent to listeners as it is. Shorter ones would multiply the work for each listener by up to four. */
export const MIN_SENT_SAMPLES = 480;
/** Rate of groups that may be ended early, by a packet that cannot be joined: encoders change their configuration rarely. */
const EARLY_ENDS: Rate = { perSecond: 10, burst: 100 };

/**
 * Joins consecutive packets of less than 10 ms into packets of 10 ms or somewhat more; of less at a tick, a pause or a change of
 * configuration. Pure: the caller passes the time.
 */
export class ShortPackets {
  readonly #send: (packet: OpusPacket, nowMs: number) => void;
  readonly #earlyEnds = new TokenBucket(EARLY_ENDS, 0);
  #group: OpusPacket[] = [];
  #durationSamples = 0;
  #bytes = 0;
  /** Silence before the next packet because of packets that were dropped, ms. */
  #droppedMs = 0;
  #hasPushed = false;

  /** @param send sends a joined packet, whose level is that of the loudest packet in it */
  constructor(send: (packet: OpusPacket, nowMs: number) => void) {
    this.#send = send;
  }

  push(packet: OpusPacket, nowMs: number): void {
    this.#hasPushed = true;
    const [first] = this.#group;
    if (first && !this.#canJoin(packet, first)) this.#end(nowMs);
    this.#group.push(packet);
    this.#durationSamples += packet.durationSamples;
    this.#bytes += packet.payload.length;
    if (this.#durationSamples >= MIN_SENT_SAMPLES) this.#flush(nowMs);
  }

  /** Ends the group before a packet that is not pushed. @returns silence before that packet because of packets that were dropped, ms */
  endBefore(nowMs: number): number {
    this.#end(nowMs);
    const droppedMs = this.#droppedMs;
    this.#droppedMs = 0;
    return droppedMs;
  }

  /** Ends the group before a packet that cannot be joined with it. */
  #end(nowMs: number): void {
    if (this.#group.length === 0) return;
    if (this.#earlyEnds.balance(nowMs) >= 1) {
      this.#earlyEnds.spend(1, nowMs);
      this.#flush(nowMs);
      return;
    }
    counters.dropped.too_fast += this.#group.length;
    this.#droppedMs += this.#group[0]!.gapMs + this.#durationSamples / SAMPLES_PER_MS;
    this.#clear();
  }

  /** Ends the group, so that no packet waits for longer than from one tick to the next. @returns false if no packet has come since the last tick */
  tick(nowMs: number): boolean {
    const hasPushed = this.#hasPushed;
    this.#hasPushed = false;
    if (this.#group.length > 0) this.#flush(nowMs);
    return hasPushed;
  }

  #canJoin(packet: OpusPacket, first: OpusPacket): boolean {
    return (
      packet.gapMs === 0 &&
      packet.isMuted === first.isMuted &&
      isSameConfiguration(packet.payload, first.payload) &&
      this.#bytes + packet.payload.length <= MAX_BYTES_PER_20_MS
    );
  }

  #flush(nowMs: number): void {
    const group = this.#group;
    const durationSamples = this.#durationSamples;
    const packet = {
      ...group[0]!,
      payload: joinOpusPackets(group.map(({ payload }) => payload)),
      durationSamples,
      durationMs: durationSamples / SAMPLES_PER_MS,
      audioLevel: Math.min(...group.map(({ audioLevel }) => audioLevel)),
      gapMs: group[0]!.gapMs + this.#droppedMs,
    };
    this.#droppedMs = 0;
    this.#clear();
    this.#send(packet, nowMs);
  }

  #clear(): void {
    this.#group = [];
    this.#durationSamples = 0;
    this.#bytes = 0;
  }
}
