import { WebSocket } from 'ws';
import { type Message, type MessageOf, readMessage } from './messages.ts';

/** Address of the gateway, the key of the canary's account, and what ends all waiting for answers. */
export type Target = { url: string; key: string; room: string; stopped?: AbortSignal };

/** Longest wait for an answer. */
export const PATIENCE_MS = 10_000;

const SOCKET_OPTIONS = {
  perMessageDeflate: false,
  handshakeTimeout: PATIENCE_MS,
  // A gateway that hangs answers no close. The types of ws lack the option.
  closeTimeout: 1000,
};

/** An error that the gateway has told, or a close, with its code. */
export class ServerFault extends Error {
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

const faultOf = ({ code, message }: MessageOf<'error'>) =>
  new ServerFault(code, `${code}: ${message}`);

/** A WebSocket to the gateway, with requests and their answers. */
export class Connection {
  /** Called with each message that answers no request. */
  onMessage: (message: Message) => void = () => {};
  /** Called with each error that answers no request, and once with the end of the connection. */
  onFault: (fault: Error) => void = () => {};
  /** Called with each binary frame and its arrival time, in ms. */
  onFrame: (frame: Buffer, atMs: number) => void = () => {};
  readonly #socket: WebSocket;
  readonly #waiting = new Map<string, (answer: Message | Error) => void>();
  #asked = 0;
  #ended: Error | undefined;
  #isOver = false;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer, isBinary: boolean) => {
      if (isBinary) this.onFrame(data, performance.now());
      else this.#read(data.toString());
    });
    socket.on('close', (code) => {
      this.#end(new ServerFault(String(code), `the connection was closed with ${code}`));
    });
    socket.on('error', (fault) => this.#end(fault));
  }

  /** Connects a peer to the lobby. @throws {Error} with the reason if the gateway refuses it */
  static async open(
    { url, key, stopped }: Target,
    peer: string,
    query: Record<string, string> = {},
  ): Promise<Connection> {
    stopped?.throwIfAborted();
    const address = new URL('/ws', url.replace(/^http/, 'ws'));
    address.search = new URLSearchParams({ room: '__lobby__', peer, ...query }).toString();
    const socket = new WebSocket(address, {
      ...SOCKET_OPTIONS,
      // Not in the address, which load balancers log.
      headers: { authorization: `Bearer ${key}` },
    });
    const connection = new Connection(socket);
    const stop = () => {
      connection.#end(stopped?.reason as Error);
      connection.close();
    };
    stopped?.addEventListener('abort', stop);
    socket.once('close', () => stopped?.removeEventListener('abort', stop));
    try {
      await connection.#await('welcome');
      return connection;
    } catch (fault) {
      connection.close();
      throw fault;
    }
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN;
  }

  /** Sends a request and resolves with its answer. @throws {Error} if it is refused, or not answered */
  async ask<T extends Message['type']>(request: object, answer: T): Promise<MessageOf<T>> {
    this.#asked += 1;
    const id = String(this.#asked);
    const answered = this.#await(id);
    if (!this.#ended) this.#socket.send(JSON.stringify({ ...request, id }));
    const message = await answered;
    if (message.type === answer) return message as MessageOf<T>;
    throw new Error(`expected "${answer}", received "${message.type}"`);
  }

  send(frame: Uint8Array): void {
    if (this.isOpen) this.#socket.send(frame, { binary: true });
  }

  close(): void {
    this.#socket.close(1000);
  }

  #await(key: string): Promise<Message> {
    if (this.#ended) return Promise.reject(this.#ended);
    const { promise, resolve, reject } = Promise.withResolvers<Message>();
    const timer = setTimeout(() => {
      settle(new Error(`no answer within ${PATIENCE_MS / 1000} s`));
    }, PATIENCE_MS);
    const settle = (answer: Message | Error) => {
      clearTimeout(timer);
      this.#waiting.delete(key);
      if (answer instanceof Error) reject(answer);
      else if (answer.type === 'error') reject(faultOf(answer));
      else resolve(answer);
    };
    this.#waiting.set(key, settle);
    return promise;
  }

  #read(text: string): void {
    let message: Message | undefined;
    try {
      message = readMessage(text);
    } catch {
      this.#end(new Error('the server is no gateway: it sent text that is not JSON'));
      this.close();
      return;
    }
    if (!message) return;
    const key = message.type === 'welcome' ? message.type : String(message.reply_to);
    const settle = this.#waiting.get(key);
    if (settle) settle(message);
    else if (message.type === 'error') this.#fail(faultOf(message));
    else this.onMessage(message);
  }

  /** Ends all waiting for answers, for good. */
  #fail(fault: Error): void {
    this.#ended ??= fault;
    for (const settle of this.#waiting.values()) settle(this.#ended);
    this.onFault(fault);
  }

  /** Notes the end of the connection: the first sign of it, which says most. */
  #end(fault: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#fail(fault);
  }
}
