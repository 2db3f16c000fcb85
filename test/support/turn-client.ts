import { createHash, createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';

/** TURN over TLS (RFC 8656), as far as a test needs it: an allocation, and permissions for peers. */

const COOKIE = 0x2112a442;
const HEADER_BYTES = 20;
const INTEGRITY_BYTES = 24;
const METHODS = { allocate: 0x0003, createPermission: 0x0008 };
const ATTRIBUTES = {
  username: 0x0006,
  integrity: 0x0008,
  errorCode: 0x0009,
  peerAddress: 0x0012,
  realm: 0x0014,
  nonce: 0x0015,
  requestedTransport: 0x0019,
};
const PROTOCOLS = { tcp: 6, udp: 17 };

type Attribute = [type: number, value: Buffer];
/** Error code of an answer; 0 if it was a success. */
type Answer = { errorCode: number; attributes: Map<number, Buffer> };

/** A connection to a TURN server. */
export class TurnClient {
  readonly #socket: TLSSocket;
  readonly #username: string;
  readonly #credential: string;
  #realm: Buffer = Buffer.alloc(0);
  #nonce: Buffer = Buffer.alloc(0);
  #unread: Buffer = Buffer.alloc(0);

  private constructor(socket: TLSSocket, username: string, credential: string) {
    this.#socket = socket;
    this.#username = username;
    this.#credential = credential;
  }

  static async connect(
    { host, port, ca }: { host: string; port: number; ca: Buffer },
    { username, credential }: { username: string; credential: string },
  ): Promise<TurnClient> {
    const socket = connect({ host, port, ca });
    await once(socket, 'secureConnect');
    return new TurnClient(socket, username, credential);
  }

  /** Asks for an address from which to relay. @returns the error code, 0 for none */
  async allocate(protocol: keyof typeof PROTOCOLS = 'udp'): Promise<number> {
    const transport: Attribute = [
      ATTRIBUTES.requestedTransport,
      Buffer.from([PROTOCOLS[protocol], 0, 0, 0]),
    ];
    const challenge = await this.#ask(METHODS.allocate, [transport], false);
    this.#realm = challenge.attributes.get(ATTRIBUTES.realm) ?? this.#realm;
    this.#nonce = challenge.attributes.get(ATTRIBUTES.nonce) ?? this.#nonce;
    return (await this.#ask(METHODS.allocate, [transport], true)).errorCode;
  }

  /** Asks to relay to a peer, an IPv4 address. @returns the error code, 0 for none */
  async permit(peer: string): Promise<number> {
    const address = Buffer.from(peer.split('.').map(Number)).readUInt32BE();
    const value = Buffer.alloc(8);
    value.writeUInt8(1, 1);
    value.writeUInt16BE(0x1234 ^ (COOKIE >>> 16), 2);
    value.writeUInt32BE((address ^ COOKIE) >>> 0, 4);
    const attributes: Attribute[] = [[ATTRIBUTES.peerAddress, value]];
    return (await this.#ask(METHODS.createPermission, attributes, true)).errorCode;
  }

  close(): void {
    this.#socket.destroy();
  }

  async #ask(method: number, attributes: Attribute[], isSigned: boolean): Promise<Answer> {
    const credentials: Attribute[] = isSigned
      ? [
          [ATTRIBUTES.username, Buffer.from(this.#username)],
          [ATTRIBUTES.realm, this.#realm],
          [ATTRIBUTES.nonce, this.#nonce],
        ]
      : [];
    const body = Buffer.concat([...attributes, ...credentials].map(encode));
    const header = Buffer.alloc(HEADER_BYTES);
    header.writeUInt16BE(method, 0);
    header.writeUInt16BE(body.length + (isSigned ? INTEGRITY_BYTES : 0), 2);
    header.writeUInt32BE(COOKIE, 4);
    randomBytes(12).copy(header, 8);
    const message = Buffer.concat([header, body]);
    this.#socket.write(isSigned ? Buffer.concat([message, this.#sign(message)]) : message);
    return this.#read();
  }

  #sign(message: Buffer): Buffer {
    const words = `${this.#username}:${this.#realm.toString()}:${this.#credential}`;
    const key = createHash('md5').update(words).digest();
    return encode([ATTRIBUTES.integrity, createHmac('sha1', key).update(message).digest()]);
  }

  async #read(): Promise<Answer> {
    const lengthOf = (bytes: Buffer) =>
      bytes.length < HEADER_BYTES ? Infinity : HEADER_BYTES + bytes.readUInt16BE(2);
    while (this.#unread.length < lengthOf(this.#unread)) {
      const [chunk] = (await once(this.#socket, 'data')) as [Buffer];
      this.#unread = Buffer.concat([this.#unread, chunk]);
    }
    const message = this.#unread.subarray(0, lengthOf(this.#unread));
    this.#unread = this.#unread.subarray(message.length);
    const attributes = decode(message.subarray(HEADER_BYTES));
    const error = attributes.get(ATTRIBUTES.errorCode);
    return { errorCode: error ? error[2]! * 100 + error[3]! : 0, attributes };
  }
}

function encode([type, value]: Attribute): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(value.length, 2);
  return Buffer.concat([head, value, Buffer.alloc(-value.length & 3)]);
}

function decode(bytes: Buffer): Map<number, Buffer> {
  const attributes = new Map<number, Buffer>();
  for (let at = 0; at + 4 <= bytes.length;) {
    const length = bytes.readUInt16BE(at + 2);
    attributes.set(bytes.readUInt16BE(at), bytes.subarray(at + 4, at + 4 + length));
    at += 4 + length + (-length & 3);
  }
  return attributes;
}
