import type { WebSocket } from 'ws';

/** Stops a socket from being read, and lets it be read again: as `WebSocket` itself. */
export type Reading = Pick<WebSocket, 'pause' | 'resume' | 'isPaused'>;

/** Lets several parts stop one socket from being read: it is read again when none of them holds it any more. */
export class ReadGate {
  readonly #socket: Reading;
  readonly #holders = new Set<symbol>();
  #isClosed = false;

  constructor(socket: Reading) {
    this.#socket = socket;
  }

  /** Opens the gate of one part. */
  open(): Reading {
    const holder = Symbol('holder');
    const holders = this.#holders;
    return {
      get isPaused() {
        return holders.has(holder);
      },
      pause: () => {
        holders.add(holder);
        if (!this.#isClosed) this.#socket.pause();
      },
      resume: () => {
        holders.delete(holder);
        if (holders.size === 0 && !this.#isClosed) this.#socket.resume();
      },
    };
  }

  /** Leaves the socket as it is: from now on others see to whether it is read, perhaps another process. */
  close(): void {
    this.#isClosed = true;
  }
}
