import {
  parseIdentification,
  parseSetup,
  VORBIS_IDENTIFICATION_TYPE,
} from '../frames/vorbis-header.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';
import { OGG_VORBIS, OggReader } from './ogg-reader.ts';

type Stream = {
  rateHz: number;
  blockSamples: readonly [number, number];
  /** By mode: its blocks are long. */
  modes: readonly boolean[];
  /** Bits of the number of a mode. */
  modeBits: number;
};

/** Packets of headers are told from those of sound by their first bit. */
const HEADER_BIT = 1;

/**
 * Reads Vorbis in Ogg (Vorbis I §A.2). The head of a stream, which its decoder needs, is its identification header with its setup header behind it;
 * it comes out before the first frame.
 */
export class VorbisReader implements FrameReader {
  readonly #onFrame: FrameSink;
  readonly #ogg: OggReader;
  #identification: Buffer | undefined;
  #stream: Stream | undefined;
  /** Samples of the last block; undefined before the first. */
  #lastSamples: number | undefined;
  #setupBytes = 0;

  constructor(onFrame: FrameSink) {
    this.#onFrame = onFrame;
    this.#ogg = new OggReader((packet) => this.#take(packet), OGG_VORBIS);
  }

  get heldBytes(): number {
    return this.#ogg.heldBytes + (this.#identification?.length ?? 0);
  }

  /** Bytes copied and units read so far, those of setups included: the work done. */
  get work(): number {
    return this.#ogg.work + this.#setupBytes;
  }

  get isInTag(): boolean {
    return this.#ogg.isInTag;
  }

  push(chunk: Buffer): void {
    this.#ogg.push(chunk);
  }

  /** Takes all packets but comments. */
  #take(packet: Buffer): void {
    if (packet[0] === VORBIS_IDENTIFICATION_TYPE) this.#begin(packet);
    else if (this.#identification) this.#endHead(this.#identification, packet);
    else if (this.#stream && (packet[0]! & HEADER_BIT) === 0) this.#frame(this.#stream, packet);
  }

  #begin(identification: Buffer): void {
    parseIdentification(identification);
    this.#identification = identification;
    this.#stream = undefined;
    this.#lastSamples = undefined;
  }

  #endHead(identification: Buffer, setup: Buffer): void {
    const { channels, rateHz, blockSamples } = parseIdentification(identification);
    this.#setupBytes += setup.length;
    const modes = parseSetup(setup, channels);
    const modeBits = 32 - Math.clz32(modes.length - 1);
    this.#stream = { rateHz, blockSamples, modes, modeBits };
    this.#identification = undefined;
    this.#onFrame(Buffer.concat([identification, setup]), 0);
  }

  /** A block overlaps half of the one before it (§1.3.2). */
  #frame({ rateHz, blockSamples, modes, modeBits }: Stream, packet: Buffer): void {
    const mode = (packet[0]! >> 1) & ((1 << modeBits) - 1);
    // A mode that is none is a fault of the packet, which its decoder counts.
    const samples = blockSamples[modes[mode] ? 1 : 0];
    const sounding = ((this.#lastSamples ?? samples) + samples) / 4;
    this.#lastSamples = samples;
    this.#onFrame(packet, (sounding * 1000) / rateHz);
  }
}
