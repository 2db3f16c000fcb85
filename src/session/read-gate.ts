import type { WebSocket } from 'ws';

/** Pauses and resumes reading from a socket, as `WebSocket` does. */
export type ReadControl = Pick<WebSocket, 'pause' | 'resume' | 'isPaused'>;

/** Lets several parts pause one socket: it is read again when none of them holds it any more. */
export class ReadGate {
  readonly #socket: ReadControl;
  readonly #pausedBy = new Set<symbol>();
  #isClosed = false;

  constructor(socket: ReadControl) {
    this.#socket = socket;
  }

  /** Opens the gate of one part. */
  open(): ReadControl {
    const token = Symbol('pause');
    const pausedBy = this.#pausedBy;
    return {
      get isPaused() {
        return pausedBy.has(token);
      },
      pause: () => {
        pausedBy.add(token);
        if (!this.#isClosed) this.#socket.pause();
      },
      resume: () => {
        pausedBy.delete(token);
        if (pausedBy.size === 0 && !this.#isClosed) this.#socket.resume();
      },
    };
  }

  /** Leaves the socket as it is: from now on other code, perhaps another process, decides whether it is read. */
  close(): void {
    this.#isClosed = true;
  }
}
