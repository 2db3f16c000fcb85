import { FRAME_MS, FRAME_SAMPLES, SAMPLE_RATE_HZ } from '../format.ts';
import type { OpusCodec, OpusDecoder, OpusEncoder } from '../opus-codec.ts';
import { isCelt } from '../opus-packet.ts';
import { isAlike } from './joins.ts';
import { PauseFinder } from './pause-finder.ts';

/** Maximum wait for a pause, ms. A CELT decoder adapts within a packet or two; a SILK decoder needs a quiet moment. */
const MAX_AWAITED_CELT_MS = 500;
const MAX_AWAITED_MS = 10_000;
/** Additional wait, ms, for a moment that resembles the audio heard last. After that an audible seam is better than an unnecessary encoder. */
const MAX_UNLIKE_MS = 3000;
/** Additional wait, ms, for a packet that ends with a frame of 20 ms: packets of other lengths may never do so. */
const MAX_UNALIGNED_MS = 200;

/** Minimum number of consecutive soft frames of a pause; fewer may be the soft end of a word. */
const PAUSE_FRAMES = 10;

const NOTHING = new Float32Array(0);

/**
 * Returns the maximum time, ms, after which decoders continue with the unchanged packets of a speaker that does not pause, as in music.
 * @param isNextAlike true if the next sound resembles the last one heard
 */
export const maxAwaitedMs = (packet: Buffer, isNextAlike: boolean): number =>
  (isCelt(packet) ? MAX_AWAITED_CELT_MS : MAX_AWAITED_MS) + (isNextAlike ? 0 : MAX_UNLIKE_MS);

/**
 * Beginning of a speaker's stream for decoders that have missed the packets before it. A decoder that has received those decodes the next
 * packets, which are encoded again, at first without prediction, until the speaker pauses.
 */
export class LateBeginning {
  readonly #decoder: OpusDecoder;
  readonly #encoder: OpusEncoder;
  readonly #pauses = new PauseFinder(true, PAUSE_FRAMES);
  /** Last two frames, the later one first. */
  #frames: [Float32Array, Float32Array] = [silentFrame(), silentFrame()];
  #next = silentFrame();
  #filledSamples = 0;
  #isPause = false;
  #encodedMs = 0;
  #isOver = false;

  private constructor(decoder: OpusDecoder, encoder: OpusEncoder) {
    this.#decoder = decoder;
    this.#encoder = encoder;
  }

  /** @param missed last packets of the stream, the oldest first */
  static async open(codec: OpusCodec, missed: readonly Buffer[]): Promise<LateBeginning> {
    const decoder = await codec.createDecoder();
    let encoder: OpusEncoder | undefined;
    try {
      encoder = await codec.createEncoder(SAMPLE_RATE_HZ);
      const beginning = new LateBeginning(decoder, encoder);
      beginning.#hear(missed);
      return beginning;
    } catch (fault) {
      decoder.close();
      encoder?.close();
      throw fault;
    }
  }

  /** True once packets can be forwarded unchanged. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Returns the packets of 20 ms that replace the next packet of the stream; the packet itself, if the beginning ends with it.
   * @throws {Error} if the packet does not decode
   */
  take(packet: Buffer): Buffer[] {
    const frames = this.#decode(packet);
    this.#isOver = this.#filledSamples === 0 && this.#isPause;
    if (this.#isOver) return [packet];
    const packets = frames.map((frame) => this.#encoder.encode(frame));
    this.#encodedMs += frames.length * FRAME_MS;
    const overdueMs = this.#encodedMs - maxAwaitedMs(packet, this.#isAlike);
    this.#isOver = overdueMs >= (this.#filledSamples === 0 ? 0 : MAX_UNALIGNED_MS);
    return packets;
  }

  close(): void {
    try {
      this.#decoder.close();
    } finally {
      this.#encoder.close();
    }
  }

  /** Decodes packets that listeners have missed, and treats the last frame as heard. */
  #hear(missed: readonly Buffer[]): void {
    for (const packet of missed) this.#tryDecode(packet);
    // A frame of shorter packets is complete only with later ones.
    const rest = this.#next.slice(0, this.#filledSamples);
    const [last] = this.#frames;
    const heard = silentFrame();
    heard.set(last.subarray(rest.length));
    heard.set(rest, FRAME_SAMPLES - rest.length);
    this.#filledSamples = 0;
    this.#frames[0] = heard;
    this.#encoder.prime(heard);
  }

  /** Decodes a packet; the decoders of listeners skip one that libopus refuses, too. */
  #tryDecode(packet: Buffer): void {
    try {
      this.#decode(packet);
    } catch {
      // Packets of a client enter the history without being decoded.
    }
  }

  /** Returns the frames that a packet completes; {@link #isPause} is true if a pause of the speaker is found in one of them. */
  #decode(packet: Buffer): Float32Array[] {
    const sound = this.#decoder.decode(packet);
    const frames: Float32Array[] = [];
    this.#isPause = false;
    for (let at = 0; at < sound.length;) {
      const part = sound.subarray(at, at + FRAME_SAMPLES - this.#filledSamples);
      this.#next.set(part, this.#filledSamples);
      this.#filledSamples += part.length;
      at += part.length;
      if (this.#filledSamples < FRAME_SAMPLES) break;
      const frame = this.#next;
      frames.push(frame);
      this.#frames = [frame, this.#frames[0]];
      this.#next = silentFrame();
      this.#filledSamples = 0;
      this.#pauses.note(frame);
      this.#isPause ||= this.#pauses.isFound;
    }
    return frames;
  }

  /** True if the next packets continue from those that have been sent. */
  get #isAlike(): boolean {
    const [frame, previous] = this.#frames;
    return isAlike({ previous, frame, rest: NOTHING }, 0);
  }
}

const silentFrame = () => new Float32Array(FRAME_SAMPLES);
