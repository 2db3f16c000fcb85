import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { stopReading } from './stop-reading.ts';
import { UnfinishedMessage } from './unfinished-message.ts';

export type Message = { data: Buffer; isBinary: boolean };

/** Messages and bytes of a client that have not been handled: the process that takes the client over handles them. */
export type Unread = {
  messages: Message[];
  /** Bytes after these messages, as they came over the wire. */
  bytes: Buffer;
};

/** The other processes, as they concern one client. */
type Others = {
  /** In which of them a room is; undefined if it is in this one. */
  homeOf: (room: string) => number | undefined;
  /** Takes the client, with its connection, which nobody reads. */
  move: (to: number, unread: Unread, connection: Socket) => void;
};

/**
 * The way of a client to another process: while it is open it is known how far the client has been read, and the connection
 * can be handed over without the loss of a byte.
 */
export class WayOut {
  readonly homeOf: Others['homeOf'];
  readonly #move: Others['move'];
  readonly #socket: WebSocket;
  readonly #stream: Socket;
  readonly #unfinished = new UnfinishedMessage();
  #isOpen = true;
  #held: Message[] | undefined;

  /** @param stream what `socket` reads from, of which nothing has been read yet */
  constructor(socket: WebSocket, stream: Socket, { homeOf, move }: Others) {
    this.homeOf = homeOf;
    this.#move = move;
    this.#socket = socket;
    this.#stream = stream;
    // Before ws, which hands messages out as it reads, and unmasks what it reads where it lies.
    stream.prependListener('data', this.#onData);
  }

  /** Keeps a message of a client that has set out. @returns false if it has not */
  hold(message: Message): boolean {
    this.#held?.push(message);
    return this.#held !== undefined;
  }

  /**
   * Sets out: reads no further than what has been read by now.
   * @param first the message that is being handled, which goes along
   * @param onLeave called when nothing can keep it any more
   * @param onStay it cannot be handed over, because it is about to close or does not take what it is sent
   */
  setOut(
    to: number,
    first: Message,
    onLeave: () => void,
    onStay: (messages: Message[]) => void,
  ): void {
    const messages = [first];
    this.#held = messages;
    // Not before ws has handed out all that came with the message which is being handled.
    process.nextTick(() => {
      while (this.#stream.read() !== null);
      this.#held = undefined;
      const canLeave =
        this.#isOpen &&
        this.#socket.readyState === this.#socket.OPEN &&
        this.#stream.writableLength === 0;
      this.close();
      if (canLeave && stopReading(this.#stream)) {
        onLeave();
        this.#move(to, { messages, bytes: this.#unfinished.bytes }, this.#stream);
      } else {
        onStay(messages);
      }
    });
  }

  /** The client stays. */
  close(): void {
    this.#isOpen = false;
    this.#stream.off('data', this.#onData);
  }

  readonly #onData = (chunk: Buffer): void => {
    if (!this.#unfinished.push(chunk)) this.close();
  };
}
