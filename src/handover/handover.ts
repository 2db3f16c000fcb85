import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { detachSocket } from './detach-socket.ts';
import { MessageTracker } from './message-tracker.ts';

export type Message = { data: Buffer; isBinary: boolean };

/** Messages and bytes of a client that have not been handled, for the process that takes the client over. */
export type Unread = {
  messages: Message[];
  /** Bytes after these messages, as they came over the wire. */
  bytes: Buffer;
};

/** Destination of a client by its messages so far: the process of this number, none, or undecided until the next message. */
export type Destination = number | 'here' | 'undecided';

export type HandoverParts = {
  /** Decides by a message of a client that has not been handed over. */
  destinationOf: (data: Buffer, isBinary: boolean) => Destination;
  /** Receives each message of a client that is not handed over, until `onStay` tells it to read from the socket itself. */
  onMessage: (data: Buffer, isBinary: boolean) => void;
  onStay: () => void;
  /** Has everything handled that has been read from the connection by now. */
  readAll: () => void;
  /** Sends the client to another process with its connection, which nobody reads. */
  send: (to: number, unread: Unread, connection: Socket) => void;
};

/**
 * Gate between a socket and its session while the client may be handed over to another process: it tracks how
 * far the client has been read, so that the connection can be handed over without the loss of a byte.
 */
export class Handover {
  readonly #socket: WebSocket;
  readonly #stream: Socket;
  readonly #parts: HandoverParts;
  readonly #unfinished = new MessageTracker();
  #canLeave = true;
  #isTracking = true;
  /** Messages of a client that is about to be handed over. */
  #held: Message[] | undefined;

  /** @param stream what `socket` reads from, of which nothing has been read yet, nor is it read in turns */
  constructor(socket: WebSocket, stream: Socket, parts: HandoverParts) {
    this.#socket = socket;
    this.#stream = stream;
    this.#parts = parts;
    const handle = stream.listeners('data').at(-1) as (this: Socket, chunk: Buffer) => void;
    stream.off('data', handle);
    // The tracker gets a chunk before ws, which unmasks it in place and emits its messages at once.
    stream.on('data', (chunk: Buffer) => {
      if (this.#isTracking) this.#track(chunk);
      handle.call(stream, chunk);
    });
    socket.on('message', this.#onMessage);
  }

  /** Takes a message of the client, or the `join` that stands for the `room` of its query. */
  receive(data: Buffer, isBinary: boolean): void {
    if (this.#held) {
      this.#held.push({ data, isBinary });
      return;
    }
    const destination = this.#canLeave ? this.#parts.destinationOf(data, isBinary) : 'here';
    if (typeof destination === 'number') {
      this.#begin(destination, { data, isBinary });
      return;
    }
    if (destination === 'here') this.#cancel();
    this.#parts.onMessage(data, isBinary);
  }

  /** Releases the connection after the session has ended. */
  close(): void {
    this.#canLeave = false;
    this.#isTracking = false;
    this.#socket.off('message', this.#onMessage);
  }

  /**
   * Begins to hand the client over: reads no further than what has been read by now.
   * @param first the message that is being handled, which goes along
   */
  #begin(to: number, first: Message): void {
    const messages = [first];
    this.#held = messages;
    // Only after ws has emitted all messages that came with the one being handled.
    process.nextTick(() => {
      this.#parts.readAll();
      this.#held = undefined;
      // Not while it closes, or while written data waits.
      const canLeave =
        this.#canLeave &&
        this.#socket.readyState === this.#socket.OPEN &&
        this.#stream.writableLength === 0;
      if (canLeave && detachSocket(this.#stream)) {
        this.close();
        this.#parts.send(to, { messages, bytes: this.#unfinished.bytes }, this.#stream);
        return;
      }
      this.#cancel();
      for (const { data, isBinary } of messages) this.#parts.onMessage(data, isBinary);
    });
  }

  /** Keeps the client in this process. */
  #cancel(): void {
    this.close();
    this.#parts.onStay();
  }

  readonly #onMessage = (data: Buffer, isBinary: boolean): void => this.receive(data, isBinary);

  #track(chunk: Buffer): void {
    this.#isTracking = this.#unfinished.push(chunk);
    if (!this.#isTracking) this.#canLeave = false;
  }
}
