import type { Connection, SendRequest } from './connection.ts';
import { defer } from './deferred.ts';
import { RequestError } from './errors.ts';

/** Types of requests that must not be sent twice: if the answer is lost, it is unknown whether the gateway executed the request. */
const ASKED_ONCE = new Set<string>(['connect_transport', 'produce', 'join']);

/** Sends the requests and the audio of one room over one connection after another. While there is no connection, requests wait. */
export class Wire {
  #connection = defer<Connection>();
  #present: Connection | undefined;
  #onFrame: ((frame: ArrayBuffer) => void) | undefined;
  #unknownOutcomes = 0;
  #closed = false;

  constructor(connection: Connection) {
    this.resume(connection);
  }

  /** True if the answer to a request that cannot be repeated was lost or is pending: the gateway may have executed it. */
  get isOutcomeUnknown(): boolean {
    return this.#unknownOutcomes > 0;
  }

  /** Time of the last message from the gateway, ms of `performance.now()`; undefined while there is no connection. */
  get heardMs(): number | undefined {
    return this.#present?.heardMs;
  }

  /**
   * Sends a request, and repeats it over the next connection if this one is lost. A connection over which no answer comes is given up.
   * @throws {RequestError} if the request is refused; `left` if the room is closed; `disconnected` or `timeout` if the answer is lost and
   *   the request must not be repeated, or the room was closed meanwhile
   */
  readonly request: SendRequest = async (request) => {
    const isAskedOnce = ASKED_ONCE.has(request.type);
    for (;;) {
      const connection = await this.#connection.promise;
      if (this.#closed) throw left();
      if (isAskedOnce) this.#unknownOutcomes += 1;
      try {
        const reply = await connection.request(request);
        if (isAskedOnce) this.#unknownOutcomes -= 1;
        return reply;
      } catch (error) {
        const isLost = isUnanswered(error);
        if (isAskedOnce && !isLost) this.#unknownOutcomes -= 1;
        if (isLost) connection.fail(error.message); // has no effect if the connection has ended
        if (!isLost || isAskedOnce || this.#closed) throw error;
      }
    }
  };

  /** Gives up the present connection, as if it had broken. */
  fail(message: string): void {
    this.#present?.fail(message);
  }

  /** Sets the receiver of audio frames of all connections; undefined drops them. */
  set onFrame(take: ((frame: ArrayBuffer) => void) | undefined) {
    const before = this.#onFrame;
    this.#onFrame = take;
    if (this.#present && (take || this.#present.onFrame === before)) this.#present.onFrame = take;
  }

  /** Sends a frame of audio. @returns false if there is no connection */
  sendFrame(frame: Uint8Array<ArrayBuffer>): boolean {
    return this.#present?.sendFrame(frame) ?? false;
  }

  /** Notes that the connection is lost: requests wait for {@link resume}. */
  suspend(): void {
    this.#leave();
    this.#connection = defer();
  }

  /** Sends waiting and later requests over a new connection. */
  resume(connection: Connection): void {
    this.#present = connection;
    connection.onFrame = this.#onFrame;
    this.#connection.resolve(connection);
  }

  /** Ends the wire: rejects waiting requests. */
  close(): void {
    this.#closed = true;
    this.#leave();
    this.#connection.promise.catch(() => undefined);
    this.#connection.reject(left());
  }

  #leave(): void {
    const present = this.#present;
    this.#present = undefined;
    // After a move to another room, that room receives over the same connection.
    if (present && present.onFrame === this.#onFrame) present.onFrame = undefined;
  }
}

const left = () => new RequestError('left', 'The room was left.', false);

const isUnanswered = (error: unknown): error is RequestError =>
  error instanceof RequestError && (error.code === 'disconnected' || error.code === 'timeout');
