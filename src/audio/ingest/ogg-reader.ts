import { ByteCollector } from './byte-collector.ts';
import {
  checkOpusHead,
  type ContainerReader,
  MAX_PACKET_BYTES,
  type PacketSink,
} from './container-reader.ts';

/** Layout of a page (RFC 3533 §6): the fixed head, a table of segment lengths, the segments. */
const HEAD_BYTES = 27;
const VERSION_AT = 4;
const FLAGS_AT = 5;
const SERIAL_AT = 14;
const SEGMENT_COUNT_AT = 26;
const CAPTURE_PATTERN = Buffer.from('OggS');
const CONTINUED_FLAG = 1;
const FIRST_PAGE_FLAG = 2;
/** Length of a segment that continues in the next one. */
const FULL_SEGMENT_BYTES = 255;
/** Codec of a logical stream. */
type OggCodec = {
  /** First bytes of the first packet. */
  magic: Buffer;
  /** Numbers of the packets that are skipped, from 0 on. */
  skippedPackets: readonly number[];
  /**
   * First byte of each packet of sound, for a codec with any number of skipped packets before them: these count as one. Undefined if the
   * numbers suffice.
   */
  soundByte?: number;
  /** @throws {Error} if the first packet announces a stream that cannot be read */
  check: (firstPacket: Buffer) => void;
};

/** `OpusHead` and `OpusTags` (RFC 7845 §3). */
const OGG_OPUS: OggCodec = {
  magic: Buffer.from('OpusHead'),
  skippedPackets: [0, 1],
  check: checkOpusHead,
};

/** FLAC in Ogg (RFC 9639 §10.1): the first packet is followed by any number of blocks of metadata. */
export const OGG_FLAC: OggCodec = {
  magic: Buffer.from('\x7fFLAC', 'latin1'),
  skippedPackets: [0],
  soundByte: 0xff,
  check: () => {},
};

/** Vorbis I §A.2: identification, comments, setup, and sound. */
export const OGG_VORBIS: OggCodec = {
  magic: Buffer.from('\x01vorbis', 'latin1'),
  skippedPackets: [1],
  check: () => {},
};

/** True for the first page of a stream, by its first bytes. */
export function isFirstOggPage(page: Buffer): boolean {
  return (
    page.subarray(0, CAPTURE_PATTERN.length).equals(CAPTURE_PATTERN) &&
    ((page[FLAGS_AT] ?? 0) & FIRST_PAGE_FLAG) !== 0
  );
}

/**
 * Reads audio in Ogg (RFC 3533): hands on the packets of a page as soon as the page is complete. Reads the first logical
 * stream of the codec if there are several; a stream may be followed by another.
 */
export class OggReader implements ContainerReader {
  readonly #onPacket: PacketSink;
  readonly #codec: OggCodec;
  readonly #page = new ByteCollector();
  /** Packet that continues in the next page. */
  readonly #partial = new ByteCollector();
  #neededBytes = HEAD_BYTES;
  #serial: number | undefined;
  #hasFirstPagesOnly = true;
  /** Number of complete packets of the stream. */
  #packets = 0;
  #units = 0;

  constructor(onPacket: PacketSink, codec = OGG_OPUS) {
    this.#onPacket = onPacket;
    this.#codec = codec;
  }

  get work(): number {
    return this.#page.copiedBytes + this.#partial.copiedBytes + this.#units;
  }

  /** True while a packet is skipped, such as comments with a picture. */
  get isInTag(): boolean {
    return this.#serial !== undefined && this.#isSkipped(this.#partial.bytes);
  }

  get heldBytes(): number {
    return this.#page.heldBytes + this.#partial.heldBytes;
  }

  /** True if a packet is skipped that begins with a part. */
  #isSkipped(part: Buffer): boolean {
    const { skippedPackets, soundByte } = this.#codec;
    const isSound = soundByte !== undefined && part[0] === soundByte;
    return skippedPackets.includes(this.#packets) && !isSound;
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      at += this.#page.fill(chunk, at, this.#neededBytes);
      if (this.#page.length < this.#neededBytes) return;
      this.#neededBytes = this.#bytesOfPage();
      if (this.#page.length < this.#neededBytes) continue;
      this.#readPage();
      this.#page.clear();
      this.#neededBytes = HEAD_BYTES;
    }
  }

  /** Returns the length of the page as far as it is known. */
  #bytesOfPage(): number {
    const page = this.#page.bytes;
    const isPage =
      page.subarray(0, CAPTURE_PATTERN.length).equals(CAPTURE_PATTERN) && page[VERSION_AT] === 0;
    if (!isPage) throw new Error('Not Ogg: there is no page where one should begin.');
    const bodyAt = HEAD_BYTES + page[SEGMENT_COUNT_AT]!;
    if (page.length < bodyAt) return bodyAt;
    let length = bodyAt;
    for (let at = HEAD_BYTES; at < bodyAt; at += 1) length += page[at]!;
    return length;
  }

  #readPage(): void {
    const page = this.#page.bytes;
    const flags = page[FLAGS_AT]!;
    const serial = page.readUInt32LE(SERIAL_AT);
    const bodyAt = HEAD_BYTES + page[SEGMENT_COUNT_AT]!;
    this.#units += 1;
    if ((flags & FIRST_PAGE_FLAG) !== 0) {
      this.#openStream(serial, page.subarray(bodyAt));
    } else {
      if (this.#serial === undefined)
        throw new Error('The stream has no first page of this codec.');
      this.#hasFirstPagesOnly = false;
    }
    if (serial !== this.#serial) return;
    const isContinued = (flags & CONTINUED_FLAG) !== 0;
    if (!isContinued) this.#partial.clear();
    this.#readSegments(page, bodyAt, isContinued && this.#partial.length === 0);
  }

  /** Opens a logical stream. The first pages of all streams precede all other pages; later first pages begin the streams that follow. */
  #openStream(serial: number, firstPacket: Buffer): void {
    if (!this.#hasFirstPagesOnly) this.#serial = undefined;
    this.#hasFirstPagesOnly = true;
    const { magic, check } = this.#codec;
    const isRead = firstPacket.subarray(0, magic.length).equals(magic);
    if (this.#serial !== undefined || !isRead) return;
    check(firstPacket);
    this.#serial = serial;
    this.#packets = 0;
    this.#partial.clear();
  }

  /** @param isCut true if the first packet began in a page that is missing */
  #readSegments(page: Buffer, bodyAt: number, isCut: boolean): void {
    let isSkipped = isCut;
    let from = bodyAt;
    let to = bodyAt;
    for (let at = HEAD_BYTES; at < bodyAt; at += 1) {
      const segmentBytes = page[at]!;
      to += segmentBytes;
      if (segmentBytes === FULL_SEGMENT_BYTES) continue;
      if (!isSkipped) this.#endPacket(page.subarray(from, to));
      isSkipped = false;
      from = to;
    }
    if (from < to && !isSkipped) this.#keep(page.subarray(from, to));
  }

  #endPacket(end: Buffer): void {
    const isSkipped = this.#isSkipped(this.#partial.length > 0 ? this.#partial.bytes : end);
    if (!isSkipped || this.#codec.soundByte === undefined) this.#packets += 1;
    this.#units += 1;
    if (isSkipped) {
      this.#partial.clear();
      return;
    }
    let packet = end;
    if (this.#partial.length > 0) {
      this.#keep(end);
      packet = this.#partial.bytes;
    }
    if (packet.length > 0) this.#onPacket(Buffer.from(packet));
    this.#partial.clear();
  }

  #keep(part: Buffer): void {
    // Tags may be long, and are skipped; the first byte of each is kept as a sign that it
    // continues.
    const isContinued = this.#partial.length > 0;
    const isSkipped = this.#isSkipped(isContinued ? this.#partial.bytes : part);
    if (isSkipped && isContinued) return;
    const kept = isSkipped ? part.subarray(0, 1) : part;
    const length = this.#partial.length + kept.length;
    if (length > MAX_PACKET_BYTES) throw new Error('A packet is too long.');
    this.#partial.fill(kept, 0, length);
  }
}
