import type { FrameFormat, FrameHeader } from '../frames/frame-header.ts';
import { ByteQueue } from './byte-queue.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';

/** Head of an ID3 tag (ID3v2 §3.1), which may precede frames. */
const TAG_HEAD_BYTES = 10;
const TAG_MAGIC = Buffer.from('ID3');

/**
 * Reads consecutive frames that contain their length. After lost bytes, or where the stream is joined in its middle, reading resumes at the
 * next two consecutive valid frames.
 */
export class ChainedFrames implements FrameReader {
  readonly #format: FrameFormat;
  readonly #onFrame: FrameSink;
  readonly #waiting = new ByteQueue();
  #units = 0;
  #skippedBytes = 0;
  /** Key of the previous frame's stream; undefined if there is none. */
  #streamKey: number | undefined;

  constructor(format: FrameFormat, onFrame: FrameSink) {
    this.#format = format;
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
    this.#waiting.push(chunk, (bytes) => this.#read(bytes));
  }

  /** @returns number of bytes that were taken */
  #read(bytes: Buffer): number {
    let at = 0;
    for (;;) {
      const skipped = Math.min(this.#skippedBytes, bytes.length - at);
      this.#skippedBytes -= skipped;
      at += skipped;
      const step = this.#step(bytes, at);
      if (step === undefined) return at;
      at += step;
    }
  }

  /** @returns number of bytes to advance; undefined if more are needed */
  #step(bytes: Buffer, at: number): number | undefined {
    this.#units += 1;
    const leftBytes = bytes.length - at;
    if (leftBytes < TAG_HEAD_BYTES) return undefined;
    if (beginsTag(bytes, at)) {
      this.#streamKey = undefined;
      this.#skippedBytes = tagBytes(bytes, at);
      return TAG_HEAD_BYTES;
    }
    const header = this.#format.parse(bytes, at);
    if (!header || header.streamKey !== (this.#streamKey ?? header.streamKey)) {
      this.#streamKey = undefined;
      return header ? 0 : 1 + this.#toNextSync(bytes, at + 1);
    }
    if (this.#streamKey === undefined) {
      const isFollowed = this.#isFollowed(bytes, at, header);
      if (isFollowed === undefined) return undefined;
      if (!isFollowed) return 1;
    }
    if (leftBytes < header.bytes) return undefined;
    this.#streamKey = header.streamKey;
    const { samples, rateHz } = header;
    const frame = bytes.subarray(at, at + header.bytes);
    if (!this.#format.isDescription?.(frame)) {
      this.#onFrame(Buffer.from(frame), (samples * 1000) / rateHz, rateHz);
    }
    return header.bytes;
  }

  /** Returns the number of bytes before the next possible frame or tag: a tag at the end of a file (ID3v1) may precede that of the next. */
  #toNextSync(bytes: Buffer, from: number): number {
    const sync = bytes.indexOf(0xff, from);
    const tag = bytes.subarray(from, sync === -1 ? undefined : sync).indexOf(TAG_MAGIC);
    // The beginning of a tag may be incomplete.
    const next = sync === -1 ? bytes.length - TAG_HEAD_BYTES : sync;
    const passed = tag === -1 ? Math.max(0, next - from) : tag;
    this.#units += passed;
    return passed;
  }

  /** Returns true if another frame of the same stream follows; undefined while its bytes have not arrived. */
  #isFollowed(
    bytes: Buffer,
    at: number,
    { bytes: length, streamKey }: FrameHeader,
  ): boolean | undefined {
    if (at + length + this.#format.headerBytes > bytes.length) return undefined;
    return this.#format.parse(bytes, at + length)?.streamKey === streamKey;
  }
}

/** True for the head of a tag, whose length has 7 bits in each byte: the bytes of a frame that is passed over may contain `ID3`. */
const beginsTag = (bytes: Buffer, at: number): boolean =>
  bytes.subarray(at, at + TAG_MAGIC.length).equals(TAG_MAGIC) &&
  bytes.subarray(at + 6, at + TAG_HEAD_BYTES).every((byte) => byte < 0x80);

/** Returns the length of a tag, of which each byte holds 7 bits. */
const tagBytes = (bytes: Buffer, at: number): number =>
  bytes.subarray(at + 6, at + TAG_HEAD_BYTES).reduce((size, byte) => size * 128 + (byte & 0x7f), 0);
