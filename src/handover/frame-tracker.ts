const FINAL = 0x80;
const OPCODE = 0x0f;
const FIRST_CONTROL_OPCODE = 0x8;
const MASKED = 0x80;
const MASK_BYTES = 4;
const SHORTEST_HEAD_BYTES = 2;
const LONGEST_HEAD_BYTES = 14;
const LENGTH_IN_16_BITS = 126;
const LENGTH_IN_64_BITS = 127;

/** Maximum number of held bytes: twice the longest message. */
const MAX_HELD_BYTES = 128 * 1024;

/**
 * Follows what a client sends over a WebSocket (RFC 6455 §5.2), and holds the bytes of the message that has not come whole
 * yet: with them another process can continue to read where this one stops.
 */
export class FrameTracker {
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** The frame that has begun: its header as far as it has come, and the bytes of its payload that are still to come. */
  readonly #head = Buffer.alloc(LONGEST_HEAD_BYTES);
  #headBytes = 0;
  #payloadBytes = 0;
  /** A frame has ended which is not the last of its message. */
  #isInMessage = false;

  /**
   * Takes the next bytes, before ws reads them and unmasks them in place.
   * @returns false when the message is longer than allowed; the tracker is useless from then on
   */
  push(chunk: Buffer): boolean {
    let from = 0;
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadBytes > 0) {
        const taken = Math.min(this.#payloadBytes, chunk.length - at);
        this.#payloadBytes -= taken;
        at += taken;
      } else {
        this.#head[this.#headBytes] = chunk[at]!;
        this.#headBytes += 1;
        at += 1;
        const payloadBytes = payloadBytesIn(this.#head.subarray(0, this.#headBytes));
        if (payloadBytes === undefined) continue;
        this.#payloadBytes = payloadBytes;
      }
      if (this.#payloadBytes === 0 && this.#endFrame()) from = at;
    }
    if (from < chunk.length) this.#held.push(Buffer.from(chunk.subarray(from)));
    this.#heldBytes += chunk.length - from;
    return this.#heldBytes <= MAX_HELD_BYTES;
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#held);
  }

  /** @returns true if a message has ended with it */
  #endFrame(): boolean {
    const [first = 0] = this.#head;
    this.#headBytes = 0;
    // A control frame may come in the middle of a message, and then stays with it.
    const isControl = (first & OPCODE) >= FIRST_CONTROL_OPCODE;
    if (!isControl) this.#isInMessage = (first & FINAL) === 0;
    if (this.#isInMessage) return false;
    this.#held = [];
    this.#heldBytes = 0;
    return true;
  }
}

/** Returns the payload length of a frame with this header, in bytes; undefined while the header is incomplete. */
function payloadBytesIn(head: Buffer): number | undefined {
  if (head.length < SHORTEST_HEAD_BYTES) return undefined;
  const maskBytes = (head[1]! & MASKED) === 0 ? 0 : MASK_BYTES;
  const length = head[1]! & ~MASKED;
  const lengthBytes = length === LENGTH_IN_64_BITS ? 8 : length === LENGTH_IN_16_BITS ? 2 : 0;
  if (head.length < SHORTEST_HEAD_BYTES + lengthBytes + maskBytes) return undefined;
  if (lengthBytes === 0) return length;
  return lengthBytes === 2 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2));
}
