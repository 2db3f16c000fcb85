import type { JitterBuffer } from '../../rtp/jitter-buffer.ts';
import { FRAME_MS, FRAME_SAMPLES } from '../format.ts';
import type { AddedSpeaker, MixPacket } from './mix-plan.ts';
import { ENCODER_DELAY_SAMPLES, type OpusCodec } from '../opus-codec.ts';
import { findLateSamples, isAlike } from './joins.ts';
import { opusPacketSamples } from '../opus-packet.ts';
import { crossFade, fadeIn, fadeOut } from '../ramps.ts';
import { PauseFinder } from './pause-finder.ts';
import { Playout } from './playout.ts';

/** Length of the end of a pause, samples, that is played before the next word, if the word can be played at once. */
const SHORT_PREROLL_SAMPLES = 240;
const FADE_OUT_SAMPLES = 720;
/** Length of the cross-fade over dropped audio, samples: 5 ms. */
const SEAM_SAMPLES = 240;
/** Maximum length of decoded audio, samples, that listeners do not hear when they go over to packets: a pitch period of 10 ms. */
const MAX_OMITTED_SAMPLES = 480;
/** Maximum number of ticks for which a packet is awaited beyond its own duration and the jitter buffer's target. */
const MAX_EXTRA_WAIT_TICKS = 2;

const NOTHING = new Float32Array(0);

/** Mixed speaker of a room: produces a frame every 20 ms, and hands on the packets themselves, each at the tick that plays it. */
export class MixedSpeaker {
  readonly #buffer: JitterBuffer;
  readonly #start: AddedSpeaker;
  #playout: Playout | undefined;
  readonly #passing: { packet: Buffer; startsAtSamples: number }[] = [];
  /** Buffers of the frame of a tick and of the one before, used alternately: allocated once, because 4 KB are expensive to allocate. */
  readonly #frames = [new Float32Array(FRAME_SAMPLES), new Float32Array(FRAME_SAMPLES)] as const;
  #frame: Float32Array | undefined;
  #previous: Float32Array = this.#frames[0];
  /** Number of samples that were decoded before this tick, and not played. */
  #aheadSamples = 0;
  #hasBegun = false;
  /** Beginning of the audio that was dropped after the last frame. */
  #dropped: Float32Array | undefined;
  #isFirstFrame = true;
  #isFirstOfStream: boolean;
  #waitedTicks = 0;
  /** Duration of a packet of this speaker, ticks. */
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

  /**
   * Opens the decoder and decodes the recent packets as its history. Until then, normally before the next
   * tick, the speaker is silent.
   */
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
    const decoded = this.#playout.warmUp(packets, prerollSamples);
    const recent = decoded.subarray(0, decoded.length - prerollSamples).subarray(-FRAME_SAMPLES);
    if (this.#start.isHeard) this.#previous.set(recent, FRAME_SAMPLES - recent.length);
  }

  /** Frame of this tick; undefined if there is none. */
  get frame(): Float32Array | undefined {
    return this.#frame;
  }

  /**
   * Frame of this tick, or else the last one that was pulled, even if it was silent; before the first, the
   * audio that listeners have heard.
   */
  get previous(): Float32Array {
    return this.#frame ?? this.#previous;
  }

  /** True if listeners hear the speaker already, but its first packet that they have not heard is still missing. */
  get isAwaited(): boolean {
    return !this.#hasBegun && this.#start.isHeard && this.#waitedTicks < this.#maxWaitTicks;
  }

  /** Number of samples by which a mix must be late for listeners that have received the packets of this speaker until now. */
  get lateBehindSamples(): number {
    if (!this.#frame) return 0;
    const sound = { previous: this.#previous, frame: this.#frame, rest: this.rest };
    return findLateSamples(sound, this.#aheadSamples);
  }

  /** True if its packets are longer than a tick. */
  get isLong(): boolean {
    return this.#packetTicks > 1;
  }

  /** True if its packets are longer than a tick, and this tick is the last one within a packet. */
  get endsLong(): boolean {
    return this.isLong && this.rest.length < FRAME_SAMPLES;
  }

  /** True if listeners of a mix that is `lateSamples` late can continue with the next packets: they do not hear {@link rest}. */
  isAlike(lateSamples: number): boolean {
    if (!this.#frame) return false;
    if (this.isLong && this.rest.length > MAX_OMITTED_SAMPLES) return false;
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

  /** Returns the number of ticks that have passed without the packet that is due: the sender may have stopped before the mix began. */
  #ticksWithoutPacket(nowMs: number): number {
    const { isHeard, pace } = this.#start;
    if (!isHeard || !pace) return 0;
    return Math.max(0, Math.floor((nowMs - pace.atMs) / FRAME_MS) - 1);
  }

  /** Begins playback, once the packets suffice for a frame that can be played without a gap after it. */
  begin(nowMs: number): void {
    if (this.#hasBegun) return;
    if (this.#waitedTicks === 0) this.#waitedTicks = this.#ticksWithoutPacket(nowMs);
    // Ticks count also for a decoder that does not open: other speakers must not wait for it.
    this.#waitedTicks += 1;
    if (!this.#playout) return;
    const preroll = this.#playout.ready.length;
    // The rest of a packet that another mix has begun to play is no pause.
    const shortSamples = this.#start.isHeard ? preroll : Math.min(preroll, SHORT_PREROLL_SAMPLES);
    const neededSamples = FRAME_SAMPLES - shortSamples;
    if (neededSamples <= 0 || this.#buffer.isReady(neededSamples, nowMs)) {
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

  /** Accounts for a change of the phase of ticks, ms; negative if they come earlier. */
  moveTicks(movedMs: number): void {
    this.#playout?.moveTicks(movedMs);
  }

  pull(nowMs: number): void {
    if (this.#frame) this.#previous = this.#frame;
    this.#frame = undefined;
    if (!this.#hasBegun || !this.#playout) return;
    const frame = this.#frames[this.#previous === this.#frames[0] ? 1 : 0].fill(0);
    this.#aheadSamples = this.rest.length;
    const isSounding = this.#playout.pull(frame, nowMs) || this.#dropped !== undefined;
    if (this.#dropped) crossFade(frame.subarray(0, SEAM_SAMPLES), this.#dropped);
    this.#dropped = undefined;
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

  /** Drops the next 20 ms; the frame after them cross-fades from the beginning of the dropped audio, so that there is no click. */
  skip(nowMs: number): void {
    if (!this.#hasBegun || !this.#playout) return;
    const dropped = new Float32Array(FRAME_SAMPLES);
    if (!this.#playout.pull(dropped, nowMs)) return;
    this.#pauses.note(dropped);
    this.#dropped ??= dropped.subarray(0, SEAM_SAMPLES);
  }

  /** Fades out in this frame; later audio fades in. */
  fadeOut(nowMs: number): void {
    this.pull(nowMs);
    this.#isFirstFrame = true;
    if (!this.#frame) return;
    // Opus listeners do not hear the end of the frame.
    fadeOut(this.#frame.subarray(0, FADE_OUT_SAMPLES));
    this.#frame.fill(0, FADE_OUT_SAMPLES);
  }

  /** Fades in from silence; a stream begins with the delay of its encoder, which is silent. */
  #fadeIn(frame: Float32Array): void {
    const silentSamples = this.#isFirstOfStream ? ENCODER_DELAY_SAMPLES : 0;
    this.#isFirstOfStream = false;
    frame.fill(0, 0, silentSamples);
    fadeIn(frame.subarray(silentSamples));
  }

  /** Hands on the packets that the mixes of this tick have reached. */
  passOn(pass: (packet: Buffer, restSamples: number) => void): void {
    const pulledSamples = this.#playout?.pulledSamples ?? 0;
    while (this.#passing.length > 0 && this.#passing[0]!.startsAtSamples < pulledSamples) {
      const { packet } = this.#passing.shift()!;
      const endsAtSamples = this.#passing[0]?.startsAtSamples ?? Infinity;
      pass(packet, Math.max(0, Math.min(this.rest.length, endsAtSamples - pulledSamples)));
    }
  }

  /** Decoded audio after {@link frame}: listeners that receive packets have heard it already. */
  get rest(): Float32Array {
    return this.#playout?.ready ?? NOTHING;
  }

  /**
   * True for the frame that completes a pause, also one between two words, and for every 10th frame while the
   * pause continues; false if the decoded audio after the frame is loud.
   */
  get isPausing(): boolean {
    return this.#pauses.isFound && this.#pauses.isSoft(this.rest);
  }

  /** Returns the number of samples that were concealed since the last call. */
  takeConcealed(): number {
    const samples = this.#playout?.concealedSamples ?? 0;
    const since = samples - this.#reportedConcealed;
    this.#reportedConcealed = samples;
    return since;
  }

  /** Duration of held audio that has not been played, ms. */
  get depthMs(): number {
    return this.#buffer.depthMs;
  }

  /** Adds the numbers of packets that were dropped since the last call. */
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
