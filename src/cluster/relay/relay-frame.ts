import { MAX_MESSAGE_BYTES } from '../../protocol/message-size.ts';

/** Maximum length of room key and peer name together, bytes: each name has up to 128 characters of 4 bytes. */
const MAX_NAMES_BYTES = 2048;
const LENGTH_BYTES = 4;
/** Lengths of the room's key and of the peer's name, 16 bits each. */
const NAME_LENGTHS_BYTES = 4;
const MAX_BODY_BYTES = NAME_LENGTHS_BYTES + MAX_NAMES_BYTES + MAX_MESSAGE_BYTES;

/** One message of a peer whose format is unknown, for the same room on another node. */
export type RelayedMessage = {
  /** Key of the room, the same on all nodes. */
  room: string;
  /** Name of the peer that sent it. */
  peer: string;
  /** For a received message: a view of the received bytes. */
  message: Buffer;
};

/** Frame without a body: a probe, and also the answer to one, which shows that the other end reads. */
export const PROBE = Buffer.alloc(LENGTH_BYTES);

/**
 * Writes a message as it goes over the connection between two nodes: length of the body (32 bits), and in the body the lengths of
 * the room's key and the peer's name in bytes (16 bits each), both names, and the message. Numbers are big-endian.
 */
export function writeRelayFrame({ room, peer, message }: RelayedMessage): Buffer {
  const roomBytes = Buffer.byteLength(room);
  const peerBytes = Buffer.byteLength(peer);
  const headBytes = LENGTH_BYTES + NAME_LENGTHS_BYTES + roomBytes + peerBytes;
  const frame = Buffer.allocUnsafe(headBytes + message.length);
  frame.writeUInt32BE(frame.length - LENGTH_BYTES, 0);
  frame.writeUInt16BE(roomBytes, LENGTH_BYTES);
  frame.writeUInt16BE(peerBytes, LENGTH_BYTES + 2);
  frame.write(room, LENGTH_BYTES + NAME_LENGTHS_BYTES);
  frame.write(peer, headBytes - peerBytes);
  frame.set(message, headBytes);
  return frame;
}

/** Reads the frames of one connection, cut into chunks anywhere. Holds one unfinished frame at most. */
export class RelayFrameReader {
  readonly #onMessage: (message: RelayedMessage) => void;
  readonly #onProbe: () => void;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** Bytes needed for the next step: a length field, or a whole frame. */
  #neededBytes = LENGTH_BYTES;

  constructor(onMessage: (message: RelayedMessage) => void, onProbe: () => void) {
    this.#onMessage = onMessage;
    this.#onProbe = onProbe;
  }

  /** @throws {Error} if the bytes are not frames; the connection must then be closed */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#bytes < this.#neededBytes) return;
    let rest = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks);
    this.#neededBytes = LENGTH_BYTES;
    while (rest.length >= LENGTH_BYTES) {
      const bodyBytes = rest.readUInt32BE(0);
      if (bodyBytes > MAX_BODY_BYTES)
        throw new Error(`relay frame body of ${bodyBytes} bytes; at most ${MAX_BODY_BYTES}`);
      this.#neededBytes = LENGTH_BYTES + bodyBytes;
      if (rest.length < this.#neededBytes) break;
      if (bodyBytes === 0) this.#onProbe();
      else this.#onMessage(readBody(rest.subarray(LENGTH_BYTES, this.#neededBytes)));
      rest = rest.subarray(this.#neededBytes);
      this.#neededBytes = LENGTH_BYTES;
    }
    this.#chunks = rest.length > 0 ? [rest] : [];
    this.#bytes = rest.length;
  }
}

function readBody(body: Buffer): RelayedMessage {
  if (body.length < NAME_LENGTHS_BYTES) throw new Error('relay frame without names');
  const peerAt = NAME_LENGTHS_BYTES + body.readUInt16BE(0);
  const messageAt = peerAt + body.readUInt16BE(2);
  if (messageAt > body.length) throw new Error('relay frame that ends within its names');
  return {
    room: body.toString('utf8', NAME_LENGTHS_BYTES, peerAt),
    peer: body.toString('utf8', peerAt, messageAt),
    message: body.subarray(messageAt),
  };
}
