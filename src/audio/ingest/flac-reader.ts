import { type FlacHeader, parseFlacHeader } from '../frames/flac-frame.ts';
import { ByteQueue } from './byte-queue.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';

/** Beginning of a FLAC stream (RFC 9639 §6): `fLaC`, blocks of metadata, frames. */
const MAGIC = Buffer.from('fLaC');
const BLOCK_HEAD_BYTES = 4;
const LAST_BLOCK = 0x80;
/** Maximum length of the header of a frame. */
const MAX_HEAD_BYTES = 16;
/** Maximum samples of a frame, that of the streamable subset (§7): no voice client sends more. */
const MAX_FRAME_SAMPLES = 16_384;
const MAX_FRAME_BYTES = 1 << 18;
/** Rates that are decoded, as in WAVE files; a header may say any from 1 Hz on. */
const MIN_RATE_HZ = 4000;
const MAX_RATE_HZ = 192_000;
/** Bit of the second byte of a frame in a stream whose frames differ in length. */
const VARIABLE_LENGTHS = 1;
/** Minimum length of a frame: header, one subframe of one value, checksum. */
const MIN_FRAME_BYTES = 9;

/** Table of the CRC-16 of a frame, which is 0 over the whole frame including its checksum (§9.3). */
const CRC_16 = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? (crc << 1) ^ 0x8005 : crc << 1;
  return crc;
});

/** Returns the duration of a frame, ms, and its rate. @throws {Error} if the frame cannot be decoded */
export function flacTimingOf({ samples, rateHz }: FlacHeader): {
  durationMs: number;
  rateHz: number;
} {
  if (samples > MAX_FRAME_SAMPLES) throw new Error('A frame has too many samples.');
  if (!rateHz) throw new Error('A frame does not say its rate.');
  if (rateHz < MIN_RATE_HZ || rateHz > MAX_RATE_HZ) {
    throw new Error(`A frame has ${rateHz} Hz, not ${MIN_RATE_HZ} to ${MAX_RATE_HZ}.`);
  }
  return { durationMs: (samples * 1000) / rateHz, rateHz };
}

/**
 * Reads FLAC without a container. A frame does not contain its length: it ends where its checksum is right and another frame begins, or
 * where a message ends that seems to contain whole frames. A stream that is joined in its middle, or has lost bytes, is read from its next frame on.
 */
export class FlacReader implements FrameReader {
  readonly #onFrame: FrameSink;
  readonly #waiting = new ByteQueue();
  #units = 0;
  #skippedBytes = 0;
  /** True while blocks of metadata are read. */
  #isMetadata = false;
  /** True if the frame at the beginning of {@link #waiting} began with a message, or behind others of its message that began so. */
  #isAligned = true;
  /** Number of samples of the previous frame. */
  #lastSamples = 0;
  #crc = 0;
  /** Number of bytes of the frame at the beginning of {@link #waiting} that have been searched. */
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
    this.#waiting.push(chunk, (bytes) => this.#read(bytes, bytes.length - chunk.length));
  }

  /**
   * @param heldBytes number of the bytes that came with earlier messages
   * @returns number of bytes that were taken
   */
  #read(bytes: Buffer, heldBytes: number): number {
    if (heldBytes === 0) this.#isAligned = true;
    let at = 0;
    for (;;) {
      const skipped = Math.min(this.#skippedBytes, bytes.length - at);
      this.#skippedBytes -= skipped;
      at += skipped;
      const rest = bytes.subarray(at);
      const step = this.#isMetadata ? this.#readBlock(rest) : this.#readFrame(rest);
      if (step === undefined) break;
      if (at < heldBytes) this.#isAligned = at + step === heldBytes;
      at += step;
    }
    if (bytes.length - at > MAX_FRAME_BYTES) throw new Error('A frame is too long.');
    return at;
  }

  /** @returns position after the block; undefined if more bytes are needed */
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
    const { durationMs, rateHz } = flacTimingOf(header);
    const scannedBytes = this.#scannedBytes;
    const end = this.#endOfFrame(bytes, header);
    this.#units += (end?.at ?? this.#scannedBytes) - scannedBytes;
    if (!end) return undefined;
    this.#startAnew();
    this.#lastSamples = header.samples;
    if (end.isWhole) this.#onFrame(Buffer.from(bytes.subarray(0, end.at)), durationMs, rateHz);
    return end.at;
  }

  #toNextSync(bytes: Buffer): number {
    this.#startAnew();
    const next = bytes.indexOf(0xff, 1);
    // `fLaC` may be incomplete.
    const passed = next === -1 ? bytes.length - MAGIC.length : next;
    this.#units += passed;
    return passed;
  }

  #startAnew(): void {
    this.#crc = 0;
    this.#scannedBytes = 0;
  }

  /** True for a shorter frame in a stream whose frames are otherwise of one length (§9.1): no other frame follows. */
  #isLast(bytes: Buffer, { samples }: FlacHeader): boolean {
    return (bytes[1]! & VARIABLE_LENGTHS) === 0 && samples < this.#lastSamples;
  }

  /** @returns undefined if the end of the frame has not arrived yet; `isWhole`: its checksum is right */
  #endOfFrame(bytes: Buffer, header: FlacHeader): { at: number; isWhole: boolean } | undefined {
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
      crc = nextCrc(crc, bytes[at]!);
    }
    this.#crc = crc;
    this.#scannedBytes = at;
    // Encoders send a frame as soon as it is complete. In a stream that is cut anywhere the
    // checksum is 0 by chance in one cut of 65,536.
    const mayEnd = this.#isAligned || this.#isLast(bytes, header);
    if (!mayEnd || bytes.length < MIN_FRAME_BYTES) return undefined;
    // The last bytes may look like an incomplete header, or be a whole frame shorter than one.
    let end: number | undefined;
    for (; at < bytes.length; at += 1) {
      if (crc === 0 && at >= MIN_FRAME_BYTES && bytes[at] === 0xff) end ??= at;
      crc = nextCrc(crc, bytes[at]!);
    }
    return crc === 0 ? { at: end ?? at, isWhole: true } : undefined;
  }
}

const nextCrc = (crc: number, byte: number): number =>
  ((crc << 8) & 0xffff) ^ CRC_16[(crc >> 8) ^ byte]!;

/** True where a frame or another stream begins. */
const beginsNext = (bytes: Buffer, at: number): boolean =>
  parseFlacHeader(bytes, at) !== undefined || bytes.subarray(at, at + MAGIC.length).equals(MAGIC);

/** True where a frame begins whose codes equal those of the previous frame: inside a frame this occurs by chance once in 2^39 places. */
const beginsAlike = (bytes: Buffer, at: number): boolean =>
  bytes[at + 2] === bytes[2] && bytes[at + 3] === bytes[3] && beginsNext(bytes, at);
