const FINAL = 0x80;
const OPCODE = 0x0f;
const FIRST_CONTROL_OPCODE = 0x8;
const MASKED = 0x80;
const MASK_BYTES = 4;
const SHORTEST_HEAD_BYTES = 2;
const LENGTH_IN_16_BITS = 126;
const LENGTH_IN_64_BITS = 127;

/**
 * Follows what a client sends over a WebSocket (RFC 6455 §5.2), and knows the bytes of the message that has not come whole
 * yet: with them somebody else can go on reading where this one stops.
 */
export class UnfinishedMessage {
  #chunks: Buffer[] = [];
  #heldBytes = 0;
  /** Before so many are here there is nothing new to see. */
  #neededBytes = SHORTEST_HEAD_BYTES;

  /** Takes what has come next. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#heldBytes += chunk.length;
    if (this.#heldBytes >= this.#neededBytes) this.#cut();
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }

  /** Lets go of the messages that are whole. */
  #cut(): void {
    const held = this.bytes;
    let message = 0;
    let frame = 0;
    let needed: number;
    for (;;) {
      needed = frame + frameBytes(held.subarray(frame));
      if (needed > held.length) break;
      // A control frame may come in the middle of a message, and then stays with it.
      const isControl = (held[frame]! & OPCODE) >= FIRST_CONTROL_OPCODE;
      const endsMessage = isControl ? frame === message : (held[frame]! & FINAL) !== 0;
      frame = needed;
      if (endsMessage) message = frame;
    }
    this.#chunks = [held.subarray(message)];
    this.#heldBytes = held.length - message;
    this.#neededBytes = needed - message;
  }
}

/** How long the frame is that begins here; or, while that cannot be told, how many bytes it takes to tell more. */
function frameBytes(bytes: Buffer): number {
  if (bytes.length < SHORTEST_HEAD_BYTES) return SHORTEST_HEAD_BYTES;
  const maskBytes = (bytes[1]! & MASKED) === 0 ? 0 : MASK_BYTES;
  const length = bytes[1]! & ~MASKED;
  if (length < LENGTH_IN_16_BITS) return SHORTEST_HEAD_BYTES + maskBytes + length;
  const lengthBytes = length === LENGTH_IN_64_BITS ? 8 : 2;
  const headBytes = SHORTEST_HEAD_BYTES + lengthBytes + maskBytes;
  if (bytes.length < headBytes) return headBytes;
  const payloadBytes = lengthBytes === 8 ? Number(bytes.readBigUInt64BE(2)) : bytes.readUInt16BE(2);
  return headBytes + payloadBytes;
}
