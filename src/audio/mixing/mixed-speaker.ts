import type { JitterBuffer } from '../../rtp/jitter-buffer.ts';
import { FRAME_MS, FRAME_SAMPLES } from '../format.ts';
import type { AddedSpeaker, MixPacket } from './mix-plan.ts';
import { ENCODER_DELAY_SAMPLES, type OpusCodec } from '../opus-codec.ts';
import { findLateSamples, isAlike } from './joins.ts';
import { opusPacketSamples } from '../opus-packet.ts';
import { fadeIn, fadeOut } from '../ramps.ts';
import { PauseFinder } from './pause-finder.ts';
import { Playout } from './playout.ts';

/** Length of the end of a pause that is played before the next word, if the word can be played at once. */
const SHORT_PREROLL_SAMPLES = 240;
const FADE_OUT_SAMPLES = 720;
/** Ticks beyond its own duration, and beyond the jitter buffer's target, that a packet is waited for. */
const MAX_EXTRA_WAIT_TICKS = 2;

const NOTHING = new Float32Array(0);

/** One speaker as a room mixes it: a frame every 20 ms, and the packets themselves, each at the tick that plays it. */
export class MixedSpeaker {
  readonly #buffer: JitterBuffer;
  readonly #start: AddedSpeaker;
  #playout: Playout | undefined;
  readonly #passing: { packet: Buffer; startsAtSamples: number }[] = [];
  /** In turn the frame of a tick and the one before it: made once, because 4 KB are dear to come by. */
  readonly #frames = [new Float32Array(FRAME_SAMPLES), new Float32Array(FRAME_SAMPLES)] as const;
  #frame: Float32Array | undefined;
  #previous: Float32Array = this.#frames[0];
  /** How much was decoded before this tick, and not played. */
  #aheadSamples = 0;
  #hasBegun = false;
  #isFirstFrame = true;
  #isFirstOfStream: boolean;
  #waitedTicks = 0;
  /** How long a packet of this speaker lasts. */
  #packetTicks = 1;
  readonly #pauses = new PauseFinder();
  #reportedConcealed = 0;
  #reportedDropped = { late: 0, undecodable: 0 };
  #isClosed = false;

  constructor(buffer: JitterBuffer, start: AddedSpeaker) {
    this.#buffer = buffer;
    this.#start = start;
    this.#isFirstOfStream = start.recent.length === 0;
    if (start.next !== undefined) buffer.startAt(start.next);
    for (const packet of start.recent) this.#notePacket(opusPacketSamples(packet) ?? 0);
  }

  /** Opens the decoder, and lets it hear what has been heard; done before the next tick of the clock. */
  async open(codec: OpusCodec): Promise<void> {
    const decoder = await codec.createDecoder();
    if (this.#isClosed) {
      decoder.close();
      return;
    }
    this.#playout = new Playout(this.#buffer, decoder, (packet, startsAtSamples) =>
      this.#passing.push({ packet, startsAtSamples }),
    );
    const { recent: packets, prerollSamples } = this.#start;
    const recent = this.#playout.warmUp(packets, prerollSamples).subarray(-FRAME_SAMPLES);
    if (this.#start.isHeard) this.#previous.set(recent, FRAME_SAMPLES - recent.length);
  }

  /** The frame of this tick, until the next one; undefined if there is none. */
  get frame(): Float32Array | undefined {
    return this.#frame;
  }

  /** The frame before the next one, as it was or would have been heard. */
  get previous(): Float32Array {
    return this.#frame ?? this.#previous;
  }

  /** True if it is heard already, but the first packet that has not been heard is not there yet. */
  get isAwaited(): boolean {
    return !this.#hasBegun && this.#start.isHeard && this.#waitedTicks < this.#maxWaitTicks;
  }

  /** By how many samples a mix must be late whose listeners have been sent the packets of this speaker until now. */
  get lateBehindSamples(): number {
    if (!this.#frame) return 0;
    const sound = { previous: this.#previous, frame: this.#frame, rest: this.rest };
    return findLateSamples(sound, this.#aheadSamples);
  }

  /** True if listeners to a mix that is so late can go on with the packets that come next. */
  isAlike(lateSamples: number): boolean {
    if (!this.#frame) return false;
    const sound = { previous: this.#previous, frame: this.#frame, rest: this.rest };
    return isAlike(sound, lateSamples);
  }

  insert(packet: MixPacket, nowMs: number): void {
    this.#notePacket(packet.durationSamples);
    this.#buffer.insert(packet, packet.durationSamples, nowMs);
  }

  get #maxWaitTicks(): number {
    const targetTicks = Math.floor(this.#buffer.targetMs / FRAME_MS);
    return MAX_EXTRA_WAIT_TICKS + this.#packetTicks + targetTicks;
  }

  #notePacket(durationSamples: number): void {
    this.#packetTicks = Math.max(this.#packetTicks, Math.ceil(durationSamples / FRAME_SAMPLES));
  }

  /** Begins, once there is enough for a frame that can be played without a gap after it. */
  begin(nowMs: number): void {
    if (this.#hasBegun) return;
    // Also for a decoder that does not open: the others are not to wait for it.
    this.#waitedTicks += 1;
    if (!this.#playout) return;
    const preroll = this.#playout.ready.length;
    const shortSamples = Math.min(preroll, SHORT_PREROLL_SAMPLES);
    if (this.#buffer.isReady(FRAME_SAMPLES - shortSamples, nowMs)) {
      this.#playout.shortenTo(shortSamples);
    } else {
      // The pause is played while the word after it is held.
      const isReadyNext = this.#buffer.isReady(FRAME_SAMPLES, nowMs + FRAME_MS);
      const isShort = preroll < FRAME_SAMPLES || !isReadyNext;
      if (isShort && this.#waitedTicks < this.#maxWaitTicks) return;
    }
    this.#hasBegun = true;
    this.#isFirstFrame = !this.#start.isHeard;
  }

  pull(nowMs: number): void {
    if (this.#frame) this.#previous = this.#frame;
    this.#frame = undefined;
    if (!this.#hasBegun || !this.#playout) return;
    const frame = this.#frames[this.#previous === this.#frames[0] ? 1 : 0].fill(0);
    this.#aheadSamples = this.rest.length;
    const isSounding = this.#playout.pull(frame, nowMs);
    this.#pauses.note(frame);
    if (!isSounding) {
      this.#previous = frame;
      this.#isFirstFrame = true;
      return;
    }
    if (this.#isFirstFrame) this.#fadeIn(frame);
    this.#isFirstFrame = false;
    this.#frame = frame;
  }

  /** Falls silent in this frame; whatever comes after it rises again. */
  fadeOut(nowMs: number): void {
    this.pull(nowMs);
    this.#isFirstFrame = true;
    if (!this.#frame) return;
    // Listeners to Opus do not hear the end of the frame.
    fadeOut(this.#frame.subarray(0, FADE_OUT_SAMPLES));
    this.#frame.fill(0, FADE_OUT_SAMPLES);
  }

  /** Rises from silence; a stream begins with that by which its encoder lags. */
  #fadeIn(frame: Float32Array): void {
    const silentSamples = this.#isFirstOfStream ? ENCODER_DELAY_SAMPLES : 0;
    this.#isFirstOfStream = false;
    frame.fill(0, 0, silentSamples);
    fadeIn(frame.subarray(silentSamples));
  }

  /** Hands on the packets that the mixes of this tick have come to. */
  passOn(pass: (packet: Buffer) => void): void {
    const pulledSamples = this.#playout?.pulledSamples ?? 0;
    while (this.#passing.length > 0 && this.#passing[0]!.startsAtSamples < pulledSamples) {
      pass(this.#passing.shift()!.packet);
    }
  }

  /** The sound after {@link frame} that is decoded: listeners that are sent packets have heard it already. */
  get rest(): Float32Array {
    return this.#playout?.ready ?? NOTHING;
  }

  /** True now and then while it pauses, if only between two words. */
  get isPausing(): boolean {
    return this.#pauses.isFound && this.#pauses.isSoft(this.rest);
  }

  /** How much was made up since this was last asked. */
  takeConcealed(): number {
    const samples = this.#playout?.concealedSamples ?? 0;
    const since = samples - this.#reportedConcealed;
    this.#reportedConcealed = samples;
    return since;
  }

  /** How much is held that has not been played. */
  get depthMs(): number {
    return this.#buffer.depthMs;
  }

  /** Adds what was dropped since this was last asked. */
  takeDropped(to: { late: number; undecodable: number }): void {
    const late = this.#buffer.droppedPackets;
    const undecodable = this.#playout?.undecodablePackets ?? 0;
    to.late += late - this.#reportedDropped.late;
    to.undecodable += undecodable - this.#reportedDropped.undecodable;
    this.#reportedDropped.late = late;
    this.#reportedDropped.undecodable = undecodable;
  }

  close(): void {
    const playout = this.#playout;
    this.#isClosed = true;
    this.#playout = undefined;
    playout?.close();
  }
}
