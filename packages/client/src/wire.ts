import type { Connection, SendRequest } from './connection.ts';
import { RequestError } from './errors.ts';

/** Requests that cannot be repeated: when the answer is lost, nobody knows whether the request was done. */
const ASKED_ONCE = new Set<string>(['connect_transport', 'produce', 'join']);

/** The requests of one room, over one connection after the other: while there is none, they wait for the next. */
export class Wire {
  #connection = Promise.withResolvers<Connection>();
  #present: Connection | undefined;
  #onFrame: ((frame: ArrayBuffer) => void) | undefined;
  #inDoubt = 0;
  #closed = false;

  constructor(connection: Connection) {
    this.resume(connection);
  }

  /** An answer was lost that cannot be asked for again, or it may yet be: the gateway may know more of us than we do. */
  get isInDoubt(): boolean {
    return this.#inDoubt > 0;
  }

  /** When anything last came from the gateway, ms of `performance.now()`; undefined while there is no connection. */
  get heardMs(): number | undefined {
    return this.#present?.heardMs;
  }

  /**
   * Asks, and asks again over the next connection when this one is lost. One on which no answer comes is given up.
   * @throws {RequestError} refused; `left` if the room is closed; or lost, if the room was closed meanwhile or it cannot be asked twice
   */
  readonly request: SendRequest = async (request) => {
    const isAskedOnce = ASKED_ONCE.has(request.type);
    for (;;) {
      const connection = await this.#connection.promise;
      if (this.#closed) throw left();
      if (isAskedOnce) this.#inDoubt += 1;
      try {
        const reply = await connection.request(request);
        if (isAskedOnce) this.#inDoubt -= 1;
        return reply;
      } catch (error) {
        const isLost = isUnanswered(error);
        if (isAskedOnce && !isLost) this.#inDoubt -= 1;
        if (isLost) connection.fail(error.message); // no more than a formality, if it has ended
        if (!isLost || isAskedOnce || this.#closed) throw error;
      }
    }
  };

  /** Gives up the connection that there is, as if it had broken. */
  fail(message: string): void {
    this.#present?.fail(message);
  }

  /** Takes the frames of sound that come, over whatever connection, or lets them pass unheard. */
  set onFrame(take: ((frame: ArrayBuffer) => void) | undefined) {
    this.#onFrame = take;
    if (this.#present) this.#present.onFrame = take;
  }

  /** Sends a frame of sound. @returns whether it was sent; it is not while there is no connection */
  sendFrame(frame: Uint8Array<ArrayBuffer>): boolean {
    return this.#present?.sendFrame(frame) ?? false;
  }

  /** The connection is lost. */
  suspend(): void {
    this.#leave();
    this.#connection = Promise.withResolvers();
  }

  resume(connection: Connection): void {
    this.#present = connection;
    connection.onFrame = this.#onFrame;
    this.#connection.resolve(connection);
  }

  /** No connection will come: refuses what waits for one. */
  close(): void {
    this.#closed = true;
    this.#leave();
    this.#connection.promise.catch(() => undefined);
    this.#connection.reject(left());
  }

  #leave(): void {
    if (this.#present) this.#present.onFrame = undefined;
    this.#present = undefined;
  }
}

const left = () => new RequestError('left', 'The room was left.', false);

const isUnanswered = (error: unknown): error is RequestError =>
  error instanceof RequestError && (error.code === 'disconnected' || error.code === 'timeout');
