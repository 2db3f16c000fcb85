import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { stopReading } from '../stop-reading.ts';
import { UnfinishedMessage } from './unfinished-message.ts';

/** What a client has sent that nobody has seen to: whoever takes the client over goes on with it. */
export type Unread = {
  messages: { data: Buffer; isBinary: boolean }[];
  /** What came after these, as it came over the wire. */
  bytes: Buffer;
};

/**
 * The way of a client to another process: while it is open it is known how far the client has been read, and the connection
 * can be handed over without the loss of a byte.
 */
export class WayOut {
  readonly #socket: WebSocket;
  readonly #stream: Socket;
  readonly #unfinished = new UnfinishedMessage();
  #held: Unread['messages'] | undefined;

  /** @param stream what `socket` reads from, of which nothing has been read yet */
  constructor(socket: WebSocket, stream: Socket) {
    this.#socket = socket;
    this.#stream = stream;
    // Before ws reads it, and hands its messages out.
    stream.prependListener('data', this.#onData);
  }

  /** Keeps a message of a client that has set out. @returns false if it has not */
  hold(data: Buffer, isBinary: boolean): boolean {
    this.#held?.push({ data, isBinary });
    return this.#held !== undefined;
  }

  /**
   * Sets out: reads no further than what has been read by now.
   * @param onLeave the connection is the caller's, with what has not been seen to
   * @param onStay it cannot be handed over, because it is about to close or does not take what it is sent
   */
  setOut(onLeave: (unread: Unread) => void, onStay: (messages: Unread['messages']) => void): void {
    const held: Unread['messages'] = [];
    this.#held = held;
    // Not before ws has handed out all that came with the message which is being handled.
    process.nextTick(() => {
      while (this.#stream.read() !== null);
      this.close();
      this.#held = undefined;
      const isOpen = this.#socket.readyState === this.#socket.OPEN;
      if (isOpen && this.#stream.writableLength === 0 && stopReading(this.#stream)) {
        onLeave({ messages: held, bytes: this.#unfinished.bytes });
      } else {
        onStay(held);
      }
    });
  }

  /** The client stays. */
  close(): void {
    this.#stream.off('data', this.#onData);
  }

  readonly #onData = (chunk: Buffer): void => this.#unfinished.push(chunk);
}
