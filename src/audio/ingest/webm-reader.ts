import { ByteCollector } from './byte-collector.ts';
import {
  checkOpusHead,
  type ContainerReader,
  MAX_PACKET_BYTES,
  type PacketSink,
} from './container-reader.ts';

/** Element IDs (RFC 8794 §5, RFC 9559). */
const EBML = 0x1a45dfa3;
const SEGMENT = 0x18538067;
const CLUSTER = 0x1f43b675;
const BLOCK_GROUP = 0xa0;
const BLOCK = 0xa1;
const SIMPLE_BLOCK = 0xa3;
const TRACKS = 0x1654ae6b;
const TRACK_ENTRY = 0xae;
const TRACK_NUMBER = 0xd7;
const CODEC_ID = 0x86;
const CODEC_PRIVATE = 0x63a2;

const MAX_ID_BYTES = 4;
const MAX_SIZE_BYTES = 8;
const MAX_TRACKS_BYTES = 1 << 16;
/** Length of the time and the flags in the head of a block, behind the number of its track (RFC 9559 §10.1). */
const TIME_AND_FLAGS_BYTES = 3;
const MAX_BLOCK_HEAD_BYTES = MAX_SIZE_BYTES + TIME_AND_FLAGS_BYTES;
const LACING_FLAGS = 0x06;

/** Handling of the element that is being read. */
type State =
  /** ID and size of the element are incomplete. */
  | { name: 'head' }
  | { name: 'skip'; leftBytes: number }
  | { name: 'tracks' }
  /** Head of a block, which tells the track of the block. */
  | { name: 'blockHead'; sizeBytes: number }
  | { name: 'block' };

/**
 * Reader of Opus in WebM or other Matroska (RFC 9559). It hands on each packet as soon as its block is complete, because clusters may
 * be of unknown size or last for seconds. It needs no stack: it enters elements that contain blocks, skips all others, and expects
 * another element where one ends.
 */
export class WebmReader implements ContainerReader {
  readonly #onPacket: PacketSink;
  readonly #collected = new ByteCollector();
  #state: State = { name: 'head' };
  #neededBytes = 1;
  #isEbml = false;
  #track: number | undefined;
  #units = 0;

  constructor(onPacket: PacketSink) {
    this.#onPacket = onPacket;
  }

  get work(): number {
    return this.#collected.copiedBytes + this.#units;
  }

  get heldBytes(): number {
    return this.#collected.heldBytes;
  }

  push(chunk: Buffer): void {
    for (let at = 0; at < chunk.length;) {
      if (this.#state.name === 'skip') {
        at += this.#skip(this.#state, chunk.length - at);
        continue;
      }
      at += this.#collected.fill(chunk, at, this.#neededBytes);
      if (this.#collected.length < this.#neededBytes) return;
      this.#read();
    }
  }

  #skip(state: { leftBytes: number }, mostBytes: number): number {
    const skipped = Math.min(state.leftBytes, mostBytes);
    state.leftBytes -= skipped;
    if (state.leftBytes === 0) this.#next();
    return skipped;
  }

  /** Reads the collected bytes, which are as many as the state needs. */
  #read(): void {
    const bytes = this.#collected.bytes;
    switch (this.#state.name) {
      case 'head':
        this.#readHead(bytes);
        break;
      case 'tracks':
        this.#track = findOpusTrack(bytes);
        this.#units += bytes.length;
        this.#next();
        break;
      case 'blockHead':
        this.#readBlockHead(bytes, this.#state.sizeBytes);
        break;
      case 'block':
        this.#readBlock(bytes);
        this.#next();
        break;
      case 'skip':
        break;
    }
  }

  #next(): void {
    this.#units += 1;
    this.#collected.clear();
    this.#state = { name: 'head' };
    this.#neededBytes = 1;
  }

  #readHead(bytes: Buffer): void {
    const idBytes = lengthOfVint(bytes[0]!, MAX_ID_BYTES);
    this.#neededBytes = idBytes + 1;
    if (bytes.length < this.#neededBytes) return;
    this.#neededBytes = idBytes + lengthOfVint(bytes[idBytes]!, MAX_SIZE_BYTES);
    if (bytes.length < this.#neededBytes) return;
    this.#enter(bytes.readUIntBE(0, idBytes), readVint(bytes, idBytes)?.value);
  }

  /** @param sizeBytes undefined if the size of the element is unknown */
  #enter(id: number, sizeBytes: number | undefined): void {
    this.#isEbml ||= id === EBML;
    if (!this.#isEbml) throw new Error('The stream does not begin with an EBML header.');
    this.#next();
    if (id === SEGMENT || id === CLUSTER || id === BLOCK_GROUP) return;
    if (sizeBytes === undefined) throw new Error('The size of an element is unknown.');
    if (id === EBML) this.#track = undefined;
    if (id === TRACKS && sizeBytes > MAX_TRACKS_BYTES)
      throw new Error('The list of tracks is too long.');
    if (sizeBytes === 0) return;
    if (id === TRACKS) {
      this.#state = { name: 'tracks' };
      this.#neededBytes = sizeBytes;
    } else if (id === BLOCK || id === SIMPLE_BLOCK) {
      this.#state = { name: 'blockHead', sizeBytes };
      this.#neededBytes = Math.min(sizeBytes, MAX_BLOCK_HEAD_BYTES);
    } else {
      this.#state = { name: 'skip', leftBytes: sizeBytes };
    }
  }

  #readBlockHead(head: Buffer, sizeBytes: number): void {
    if (readVint(head, 0)?.value !== this.#track || this.#track === undefined) {
      const leftBytes = sizeBytes - head.length;
      this.#next();
      if (leftBytes > 0) this.#state = { name: 'skip', leftBytes };
      return;
    }
    if (sizeBytes > MAX_PACKET_BYTES) throw new Error('A block is too long.');
    this.#state = { name: 'block' };
    this.#neededBytes = sizeBytes;
    if (head.length === sizeBytes) this.#read();
  }

  #readBlock(block: Buffer): void {
    const packetAt = (readVint(block, 0)?.length ?? 0) + TIME_AND_FLAGS_BYTES;
    const flags = block[packetAt - 1];
    if (flags === undefined) throw new Error('A block has no head.');
    if ((flags & LACING_FLAGS) !== 0) throw new Error('A block uses lacing.');
    if (block.length > packetAt) this.#onPacket(Buffer.from(block.subarray(packetAt)));
  }
}

/** Returns the length of a number from its first byte, bytes: one more than its leading zero bits (RFC 8794 §4). */
function lengthOfVint(first: number, most: number): number {
  const length = Math.clz32(first) - 23;
  if (length > most) throw new Error('Not EBML: there is no element where one should begin.');
  return length;
}

/** @returns undefined if the number is incomplete; `value` is undefined if all of its bits are ones */
function readVint(
  bytes: Buffer,
  at: number,
): { value: number | undefined; length: number } | undefined {
  const first = bytes[at];
  if (first === undefined) return undefined;
  const length = lengthOfVint(first, MAX_SIZE_BYTES);
  if (at + length > bytes.length) return undefined;
  let value = first & (0xff >> length);
  let isUnknown = value === 0xff >> length;
  for (let i = at + 1; i < at + length; i += 1) {
    isUnknown &&= bytes[i] === 0xff;
    value = value * 256 + bytes[i]!;
  }
  return { value: isUnknown ? undefined : value, length };
}

/** Returns the number of the first track of Opus. */
function findOpusTrack(tracks: Buffer): number {
  for (const entry of elementsOf(tracks)) {
    if (entry.id !== TRACK_ENTRY) continue;
    const fields = new Map([...elementsOf(entry.content)].map(({ id, content }) => [id, content]));
    const number = fields.get(TRACK_NUMBER);
    if (fields.get(CODEC_ID)?.toString('latin1') !== 'A_OPUS' || !number) continue;
    const head = fields.get(CODEC_PRIVATE);
    if (head) checkOpusHead(head);
    return uintOf(number);
  }
  throw new Error('The file has no Opus track.');
}

function uintOf(bytes: Buffer): number {
  let value = 0;
  for (const byte of bytes) value = value * 256 + byte;
  return value;
}

/** Yields the elements of which bytes consist, without the elements inside them. */
function* elementsOf(bytes: Buffer): Generator<{ id: number; content: Buffer }> {
  for (let at = 0; at < bytes.length;) {
    const idBytes = lengthOfVint(bytes[at]!, MAX_ID_BYTES);
    const size = readVint(bytes, at + idBytes);
    if (size?.value === undefined) throw new Error('The size of an element is unknown.');
    const contentAt = at + idBytes + size.length;
    const end = contentAt + size.value;
    if (end > bytes.length) throw new Error('An element is longer than the one around it.');
    yield { id: bytes.readUIntBE(at, idBytes), content: bytes.subarray(contentAt, end) };
    at = end;
  }
}
