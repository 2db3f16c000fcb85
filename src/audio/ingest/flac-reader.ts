import { type FlacHeader, parseFlacHeader } from '../frames/flac-frame.ts';
import { ByteQueue } from './byte-queue.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';

/** A FLAC stream (RFC 9639 §6): `fLaC`, blocks of metadata, frames. */
const MAGIC = Buffer.from('fLaC');
const BLOCK_HEAD_BYTES = 4;
const LAST_BLOCK = 0x80;
/** The longest head of a frame. */
const MAX_HEAD_BYTES = 16;
/** More samples in a frame than the streamable subset allows (§7) come from nobody who talks. */
const MAX_FRAME_SAMPLES = 16_384;
const MAX_FRAME_BYTES = 1 << 18;
/** The shortest frame: head, one subframe of one value, checksum. */
const MIN_FRAME_BYTES = 9;

/** CRC-16 of a frame; 0 over all of it, its own checksum included (§9.3). */
const CRC_16 = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x8005 : crc << 1;
  return crc;
});

/** How long a frame sounds, ms. @throws {Error} if it is none that is decoded */
export function flacDurationMs({ samples, rateHz }: FlacHeader): number {
  if (samples > MAX_FRAME_SAMPLES) throw new Error('A frame has too many samples.');
  if (!rateHz) throw new Error('A frame does not say its rate.');
  return (samples * 1000) / rateHz;
}

/**
 * Reads FLAC that stands in no container. A frame does not say how long it is: it ends where its checksum is right and another begins, or a message
 * ends. A stream that is joined in its middle, or of which bytes are lost, is read from its next frame on.
 */
export class FlacReader implements FrameReader {
  readonly #onFrame: FrameSink;
  readonly #waiting = new ByteQueue();
  #units = 0;
  #skippedBytes = 0;
  /** Metadata is read until its last block. */
  #isMetadata = false;
  #crc = 0;
  /** Bytes of the frame at the beginning of {@link #waiting} that have been searched. */
  #scannedBytes = 0;

  constructor(onFrame: FrameSink) {
    this.#onFrame = onFrame;
  }

  get work(): number {
    return this.#waiting.copiedBytes + this.#units;
  }

  get heldBytes(): number {
    return this.#waiting.heldBytes;
  }

  get isInTag(): boolean {
    return this.#skippedBytes > 0;
  }

  push(chunk: Buffer): void {
    this.#waiting.push(chunk, (bytes) => bytes.length - this.#read(bytes).length);
  }

  /** @returns what is left over */
  #read(all: Buffer): Buffer {
    let bytes = all;
    for (;;) {
      const skipped = Math.min(this.#skippedBytes, bytes.length);
      this.#skippedBytes -= skipped;
      bytes = bytes.subarray(skipped);
      const step = this.#isMetadata ? this.#readBlock(bytes) : this.#readFrame(bytes);
      if (step === undefined) break;
      bytes = bytes.subarray(step);
    }
    if (bytes.length > MAX_FRAME_BYTES) throw new Error('A frame is too long.');
    return bytes;
  }

  /** @returns how far it goes; undefined if more must come first */
  #readBlock(bytes: Buffer): number | undefined {
    if (bytes.length < BLOCK_HEAD_BYTES) return undefined;
    this.#isMetadata = (bytes[0]! & LAST_BLOCK) === 0;
    this.#skippedBytes = bytes.readUIntBE(1, 3);
    return BLOCK_HEAD_BYTES;
  }

  #readFrame(bytes: Buffer): number | undefined {
    this.#units += 1;
    if (bytes.length < MAX_HEAD_BYTES) return undefined;
    if (bytes.subarray(0, MAGIC.length).equals(MAGIC)) {
      this.#isMetadata = true;
      return MAGIC.length;
    }
    const header = parseFlacHeader(bytes, 0);
    if (!header) return this.#toNextSync(bytes);
    const durationMs = flacDurationMs(header);
    const scannedBytes = this.#scannedBytes;
    const end = this.#endOfFrame(bytes);
    this.#units += (end?.at ?? this.#scannedBytes) - scannedBytes;
    if (!end) return undefined;
    this.#startAnew();
    if (end.isWhole) this.#onFrame(Buffer.from(bytes.subarray(0, end.at)), durationMs);
    return end.at;
  }

  #toNextSync(bytes: Buffer): number {
    this.#startAnew();
    const next = bytes.indexOf(0xff, 1);
    // `fLaC` may be cut in two.
    const passed = next === -1 ? bytes.length - MAGIC.length : next;
    this.#units += passed;
    return passed;
  }

  #startAnew(): void {
    this.#crc = 0;
    this.#scannedBytes = 0;
  }

  /** @returns undefined if the end of the frame has not come yet; `isWhole`: its checksum is right */
  #endOfFrame(bytes: Buffer): { at: number; isWhole: boolean } | undefined {
    let crc = this.#crc;
    let at = this.#scannedBytes;
    for (; at < bytes.length; at += 1) {
      if (at >= MIN_FRAME_BYTES && (bytes[at] === 0xff || bytes[at] === MAGIC[0])) {
        // A possible header must be complete.
        if (at + MAX_HEAD_BYTES > bytes.length) break;
        if (crc === 0 ? beginsNext(bytes, at) : beginsAlike(bytes, at)) {
          return { at, isWhole: crc === 0 };
        }
      }
      crc = ((crc << 8) & 0xffff) ^ CRC_16[(crc >> 8) ^ bytes[at]!]!;
    }
    this.#crc = crc;
    this.#scannedBytes = at;
    // Encoders send a frame when it is done.
    const isWhole = at === bytes.length && crc === 0 && at >= MIN_FRAME_BYTES;
    return isWhole ? { at, isWhole } : undefined;
  }
}

/** True where a frame or another stream begins. */
const beginsNext = (bytes: Buffer, at: number): boolean =>
  parseFlacHeader(bytes, at) !== undefined || bytes.subarray(at, at + MAGIC.length).equals(MAGIC);

/** True where a frame begins whose codes are those of the frame before it: inside of a frame that is so by chance once in 2^39 places. */
const beginsAlike = (bytes: Buffer, at: number): boolean =>
  bytes[at + 2] === bytes[2] && bytes[at + 3] === bytes[3] && beginsNext(bytes, at);
