import {
  type Identification,
  parseIdentification,
  parseSetup,
  VORBIS_IDENTIFICATION_TYPE,
} from '../frames/vorbis-header.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';
import { OGG_VORBIS, OggReader } from './ogg-reader.ts';

type Stream = {
  rateHz: number;
  blockSamples: readonly [number, number];
  /** True for each mode whose blocks are long. */
  modes: readonly boolean[];
  /** Number of bits of a mode number. */
  modeBits: number;
};

/** Bit of the first byte that distinguishes headers from packets of sound. */
const HEADER_BIT = 1;

/**
 * Reads Vorbis in Ogg (Vorbis I §A.2). The head of a stream, which its decoder needs, is its identification header followed by its setup
 * header; it is handed on before the first frame.
 */
export class VorbisReader implements FrameReader {
  readonly #onFrame: FrameSink;
  readonly #ogg: OggReader;
  /** Identification header whose setup header has not come yet. */
  #identification: (Identification & { packet: Buffer }) | undefined;
  #stream: Stream | undefined;
  /** Number of samples of the last block; undefined before the first. */
  #lastSamples: number | undefined;
  #setupBytes = 0;

  constructor(onFrame: FrameSink) {
    this.#onFrame = onFrame;
    this.#ogg = new OggReader((packet) => this.#take(packet), OGG_VORBIS);
  }

  get heldBytes(): number {
    return this.#ogg.heldBytes + (this.#identification?.packet.length ?? 0);
  }

  /** Number of bytes copied and units read so far, including those of setups: the work done. */
  get work(): number {
    return this.#ogg.work + this.#setupBytes;
  }

  get isInTag(): boolean {
    return this.#ogg.isInTag;
  }

  push(chunk: Buffer): void {
    this.#ogg.push(chunk);
  }

  /** Processes a packet: all but those of comments arrive here. */
  #take(packet: Buffer): void {
    if (packet[0] === VORBIS_IDENTIFICATION_TYPE) this.#begin(packet);
    else if (this.#identification) this.#endHead(this.#identification, packet);
    else if (this.#stream && (packet[0]! & HEADER_BIT) === 0) this.#frame(this.#stream, packet);
  }

  #begin(packet: Buffer): void {
    this.#identification = { packet, ...parseIdentification(packet) };
    this.#stream = undefined;
    this.#lastSamples = undefined;
  }

  #endHead(
    { packet, channels, rateHz, blockSamples }: Identification & { packet: Buffer },
    setup: Buffer,
  ): void {
    this.#setupBytes += setup.length;
    const modes = parseSetup(setup, channels);
    const modeBits = 32 - Math.clz32(modes.length - 1);
    this.#stream = { rateHz, blockSamples, modes, modeBits };
    this.#identification = undefined;
    this.#onFrame(Buffer.concat([packet, setup]), 0, rateHz);
  }

  /** Hands on a frame. A block overlaps half of the previous one (§1.3.2). */
  #frame({ rateHz, blockSamples, modes, modeBits }: Stream, packet: Buffer): void {
    const mode = (packet[0]! >> 1) & ((1 << modeBits) - 1);
    // An invalid mode is a fault of the packet, which its decoder counts.
    const samples = blockSamples[modes[mode] ? 1 : 0];
    const sounding = ((this.#lastSamples ?? samples) + samples) / 4;
    this.#lastSamples = samples;
    this.#onFrame(packet, (sounding * 1000) / rateHz, rateHz);
  }
}
