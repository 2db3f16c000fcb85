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
 * Tracks the messages that a client sends over a WebSocket, and holds the bytes of the one that has not arrived completely: with
 * them another process can continue to read where this one stops. A message goes in one or more WebSocket frames (RFC 6455 §5.2).
 */
export class MessageTracker {
  #held: Buffer[] = [];
  #heldBytes = 0;
  /** Header of the unfinished WebSocket frame, of which {@link #headBytes} have arrived. */
  readonly #head = Buffer.alloc(LONGEST_HEAD_BYTES);
  #headBytes = 0;
  /** Number of bytes of the payload of that frame that have not arrived. */
  #payloadBytes = 0;
  /** True between two WebSocket frames of one message. */
  #isInMessage = false;

  /**
   * Takes the next bytes. Must be called before ws reads them, because ws unmasks them in place.
   * @returns false if the message is longer than allowed; the tracker must not be used any more then
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

  /** Bytes of the unfinished message that have arrived, as they came. */
  get bytes(): Buffer {
    return Buffer.concat(this.#held);
  }

  /** Ends a WebSocket frame. @returns true if its message has ended, too */
  #endFrame(): boolean {
    const [first = 0] = this.#head;
    this.#headBytes = 0;
    // A control frame that comes in the middle of a message is held with it.
    const isControl = (first & OPCODE) >= FIRST_CONTROL_OPCODE;
    if (!isControl) this.#isInMessage = (first & FINAL) === 0;
    if (this.#isInMessage) return false;
    this.#held = [];
    this.#heldBytes = 0;
    return true;
  }
}

/** Returns the payload length of a WebSocket frame with this header, bytes; undefined while the header is incomplete. */
function payloadBytesIn(head: Buffer): number | undefined {
  if (head.length < SHORTEST_HEAD_BYTES) return undefined;
  const maskBytes = (head[1]! & MASKED) === 0 ? 0 : MASK_BYTES;
  const length = head[1]! & ~MASKED;
  const lengthBytes = length === LENGTH_IN_64_BITS ? 8 : length === LENGTH_IN_16_BITS ? 2 : 0;
  if (head.length < SHORTEST_HEAD_BYTES + lengthBytes + maskBytes) return undefined;
  if (lengthBytes === 0) return length;
  return lengthBytes === 2 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2));
}
