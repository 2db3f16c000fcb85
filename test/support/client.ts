import type { Socket } from 'node:net';
import { type ClientOptions, WebSocket } from 'ws';
import { Compile } from 'typebox/compile';
import { SERVER_MESSAGES, type ServerMessage } from '../../src/protocol/messages.ts';
import { clientFrame } from './raw-client.ts';

/** Opcodes of control frames (RFC 6455 §5.5). */
const OPCODES = { pings: 9, pongs: 10 };

type MessageOf<T extends ServerMessage['type']> = Extract<ServerMessage, { type: T }>;

const validators = new Map(
  Object.entries(SERVER_MESSAGES).map(([type, schema]) => [type, Compile(schema)] as const),
);

/** Reads a text frame of the gateway. @throws {Error} if it is not as its schema says */
function parseServerMessage(text: string): ServerMessage {
  const message = JSON.parse(text) as ServerMessage;
  const validator = validators.get(message.type);
  if (validator?.Check(message)) return message;
  const faults = validator?.Errors(message) ?? 'unknown type';
  throw new Error(`the gateway sent ${text}: ${JSON.stringify(faults)}`);
}

/** A client as a test sees it: what it was told, what it heard, and how it ended. */
export class TestClient {
  readonly messages: ServerMessage[] = [];
  readonly frames: Buffer[] = [];
  /** Resolves with the close code. */
  readonly closed: Promise<number>;
  readonly #socket: WebSocket;
  readonly #waiting = new Set<() => void>();
  #stream: Socket | undefined;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.once('upgrade', ({ socket: stream }) => (this.#stream = stream));
    this.closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    socket.on('error', (fault) => this.errors.push(fault));
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) this.#heard(data);
      else this.#told(parseServerMessage(data.toString()));
      for (const wake of this.#waiting) wake();
    });
  }

  /** Errors of the socket itself. */
  readonly errors: Error[] = [];

  /** Called with each message as it comes. */
  onMessage: (message: ServerMessage) => void = () => {};
  /** Called with each frame as it comes. */
  onFrame: (frame: Buffer) => void = () => {};

  /** Connects; does not wait for anything but the upgrade. */
  static async connect(
    url: string,
    query: Record<string, string | undefined>,
    options: ClientOptions = {},
  ): Promise<TestClient> {
    const address = new URL('/ws', url.replace('http', 'ws'));
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined) address.searchParams.set(name, value);
    }
    const socket = new WebSocket(address, { perMessageDeflate: false, ...options });
    const client = new TestClient(socket);
    await new Promise((resolve, reject) => {
      socket.once('open', resolve);
      socket.once('error', reject);
    });
    return client;
  }

  send(message: object | string): void {
    this.#socket.send(typeof message === 'string' ? message : JSON.stringify(message));
  }

  /** Sends messages, those of bytes as audio, that arrive in one piece. */
  sendTogether(messages: (object | Buffer)[]): void {
    const frames = messages.map((each) =>
      clientFrame(Buffer.isBuffer(each) ? each : JSON.stringify(each)),
    );
    this.#stream?.write(Buffer.concat(frames));
  }

  sendAudio(frame: Uint8Array): void {
    this.#socket.send(frame, { binary: true });
  }

  /** Sends a part of a binary message that does not end with it. */
  sendFragment(bytes: Uint8Array): void {
    this.#socket.send(bytes, { binary: true, fin: false });
  }

  /** The first message of a type that came, or will come, after the `from`-th message. */
  async next<T extends ServerMessage['type']>(
    type: T,
    from = 0,
    timeoutMs?: number,
  ): Promise<MessageOf<T>> {
    const read = () =>
      this.messages.slice(from).find((message): message is MessageOf<T> => message.type === type);
    return this.until(`message "${type}"`, read, timeoutMs);
  }

  /** Sends a message and waits for the next one of the type of its answer. */
  async ask<T extends ServerMessage['type']>(
    message: object | string,
    answer: T,
  ): Promise<MessageOf<T>> {
    const from = this.messages.length;
    this.send(message);
    return this.next(answer, from);
  }

  /** Waits until `read` gives something. */
  async until<T>(what: string, read: () => T | undefined, timeoutMs = 30_000): Promise<T> {
    const found = read();
    if (found !== undefined) return found;
    return new Promise<T>((resolve, reject) => {
      const giveUp = setTimeout(() => {
        this.#waiting.delete(wake);
        reject(
          new Error(
            `no ${what} within ${timeoutMs} ms; came: ${JSON.stringify(this.messages).slice(0, 2000)}`,
          ),
        );
      }, timeoutMs);
      const wake = () => {
        const value = read();
        if (value === undefined) return;
        clearTimeout(giveUp);
        this.#waiting.delete(wake);
        resolve(value);
      };
      this.#waiting.add(wake);
    });
  }

  /** Sends pings, or pongs that answer no ping, that arrive in one piece. */
  sendControl(kind: keyof typeof OPCODES, count: number): void {
    const frames = Array.from({ length: count }, () => clientFrame('', { opcode: OPCODES[kind] }));
    this.#stream?.write(Buffer.concat(frames));
  }

  /** Leaves what comes where it is, as a client does that hangs. */
  stopReading(): void {
    this.#socket.pause();
  }

  /** Reads what has come meanwhile, and goes on. */
  readAgain(): void {
    this.#socket.resume();
  }

  /** Closes as a well-behaved client does. */
  async close(code = 1000): Promise<void> {
    this.#socket.close(code);
    await this.closed;
  }

  /** Vanishes, as a client does whose network is cut. */
  vanish(): void {
    this.#socket.terminate();
  }
  #heard(frame: Buffer): void {
    this.frames.push(frame);
    this.onFrame(frame);
  }

  #told(message: ServerMessage): void {
    this.messages.push(message);
    this.onMessage(message);
  }
}
