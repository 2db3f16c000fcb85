import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { crc32 } from 'node:zlib';
import type { IceParameters } from '../../src/protocol/media-types.ts';

const MAGIC_COOKIE = 0x2112a442;
const BINDING_REQUEST = 1;
const ATTRIBUTES = {
  username: 0x0006,
  messageIntegrity: 0x0008,
  priority: 0x0024,
  useCandidate: 0x0025,
  iceControlling: 0x802a,
  fingerprint: 0x8028,
};
const HEADER_BYTES = 20;
const PRIORITY = 1_845_501_695;
/** Exclusive or of a fingerprint (RFC 8489 §14.7). */
const FINGERPRINT_MASK = 0x5354554e;

/** A client of ICE over TCP that checks its path again and again, and reads no answer. */
export class StunFlood {
  readonly #socket: Socket;
  readonly #request: Buffer;

  private constructor(socket: Socket, request: Buffer) {
    this.#socket = socket;
    this.#request = request;
  }

  static async open(port: number, ice: IceParameters): Promise<StunFlood> {
    const socket = connect(port, '127.0.0.1');
    // The gateway ends it.
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.pause();
    return new StunFlood(socket, framed(requestOf(ice)));
  }

  /** Reads answers from now on. */
  read(): void {
    this.#socket.resume();
  }

  /** Number of bytes of the answers that it has read. */
  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  /** Sends requests; resolves when the kernel has taken them. */
  async send(count: number): Promise<void> {
    const taken = Promise.withResolvers<void>();
    this.#socket.write(Buffer.concat(Array<Buffer>(count).fill(this.#request)), () =>
      taken.resolve(),
    );
    await taken.promise;
  }

  close(): void {
    this.#socket.destroy();
  }
}

/** Returns a message as ICE over TCP frames it (RFC 4571). */
function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

function requestOf({ usernameFragment, password }: IceParameters): Buffer {
  const priority = Buffer.alloc(4);
  priority.writeUInt32BE(PRIORITY);
  const attributes = [
    attribute(ATTRIBUTES.username, Buffer.from(`${usernameFragment}:abcd`)),
    attribute(ATTRIBUTES.priority, priority),
    attribute(ATTRIBUTES.iceControlling, randomBytes(8)),
    attribute(ATTRIBUTES.useCandidate, Buffer.alloc(0)),
  ];
  const transaction = randomBytes(12);
  const messageOf = (parts: Buffer[], coming: number) => {
    const body = Buffer.concat(parts);
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUInt16BE(BINDING_REQUEST, 0);
    header.writeUInt16BE(body.length + coming, 2);
    header.writeUInt32BE(MAGIC_COOKIE, 4);
    transaction.copy(header, 8);
    return Buffer.concat([header, body]);
  };
  const integrity = createHmac('sha1', password).update(messageOf(attributes, 24)).digest();
  attributes.push(attribute(ATTRIBUTES.messageIntegrity, integrity));
  const fingerprint = Buffer.alloc(4);
  fingerprint.writeUInt32BE((crc32(messageOf(attributes, 8)) ^ FINGERPRINT_MASK) >>> 0);
  attributes.push(attribute(ATTRIBUTES.fingerprint, fingerprint));
  return messageOf(attributes, 0);
}

/** Returns an attribute, padded to a multiple of four bytes. */
function attribute(type: number, value: Buffer): Buffer {
  const padded = Buffer.alloc(4 + Math.ceil(value.length / 4) * 4);
  padded.writeUInt16BE(type, 0);
  padded.writeUInt16BE(value.length, 2);
  value.copy(padded, 4);
  return padded;
}
