import type { Producer, Router } from 'mediasoup/types';
import type { MediaWorker } from './media-worker.ts';
import { Pipe, type Publish } from './pipe.ts';
import { WebRtcLeg, type WebRtcLegEvents } from './webrtc-leg.ts';

export type BranchEvents = {
  /** Called when the last leg has closed. */
  onEmpty: () => void;
  /** Called when its media worker died. */
  onLost: () => void;
};

/** The part of a room that is on one media worker: a mediasoup router, and the browsers' legs on it. */
export class Branch {
  readonly worker: MediaWorker;
  readonly router: Router;
  readonly #onEmpty: () => void;
  /** Pipe from the primary branch; undefined on that one, and until it is open. */
  #pipe: Pipe | undefined;
  #legs = 0;

  private constructor(worker: MediaWorker, router: Router, events: BranchEvents) {
    this.worker = worker;
    this.router = router;
    this.#onEmpty = events.onEmpty;
    router.once('workerclose', events.onLost);
  }

  /** @throws {Error} if the media worker dies, or hangs, meanwhile */
  static async open(worker: MediaWorker, events: BranchEvents): Promise<Branch> {
    return new Branch(worker, await worker.openRouter(), events);
  }

  /** Connects it to the primary branch; called once. @throws {Error} if that fails, or a router is closed meanwhile */
  async connect(primary: Router): Promise<void> {
    this.#pipe = await Pipe.open(primary, this.router);
  }

  /** Copies a producer of the primary branch to this one. @returns undefined if one of them is closed meanwhile */
  async takeFromPrimary(producer: Producer): Promise<Producer | undefined> {
    return this.#connected.send(producer);
  }

  /** Copies a producer of this branch to the primary one, in the same way. */
  async giveToPrimary(producer: Producer): Promise<Producer | undefined> {
    return this.#connected.fetch(producer);
  }

  /** Number of browsers on it, including those for which a leg is reserved. */
  get legs(): number {
    return this.#legs;
  }

  /** Counts one more browser, for which {@link openLeg} is called next. @returns the branch itself */
  reserveLeg(): this {
    this.#legs += 1;
    return this;
  }

  /**
   * Opens the leg that was reserved; it counts no more if that fails, or when it closes.
   * @param publish called with each producer of the browser before any other listener
   */
  async openLeg(events: WebRtcLegEvents, publish: Publish): Promise<WebRtcLeg> {
    const { router, worker } = this;
    const { webRtcServer } = worker;
    try {
      const onClosed = () => this.#legClosed();
      return await WebRtcLeg.open({ router, webRtcServer, publish, onClosed }, events);
    } catch (fault) {
      this.#legClosed();
      throw fault;
    }
  }

  /** Closes the router, and with it the legs and the pipes to and from other branches. */
  close(): void {
    this.router.close();
  }

  get #connected(): Pipe {
    if (this.#pipe) return this.#pipe;
    throw new Error('the branch is not connected');
  }

  #legClosed(): void {
    this.#legs -= 1;
    if (this.#legs === 0) this.#onEmpty();
  }
}
