import type { FastifyBaseLogger } from 'fastify';
import type { Producer, RtpCapabilities } from 'mediasoup/types';
import type { ListenAddress } from '../../config/listen-addresses.ts';
import { noteShortage } from '../resources.ts';
import { Branch } from './branch.ts';
import type { MediaWorker } from './media-worker.ts';
import { NodePipe, type PipeSettings } from './node-pipe.ts';
import { PlainLeg } from './plain-leg.ts';
import { WebRtcInput, type WebRtcInputOptions } from './webrtc-input.ts';
import { mediaLost, type WebRtcLeg, type WebRtcLegEvents } from './webrtc-leg.ts';

export type RoomRouterParts = {
  /** Returns the best media worker beside those in use, if there is one. */
  chooseOther: (taken: MediaWorker[]) => MediaWorker | undefined;
  /** Number of consumers on one media worker from which the next browser goes to another. */
  maxConsumers: number;
  /** Number of speakers that the room had before its media worker was lost: they are about to come back. */
  expectedSpeakers: number;
  /** Time after an attempt to use a further media worker that failed, until the next one, ms. */
  spreadAgainAfterMs: number;
  log: FastifyBaseLogger;
  /** Called once, when one of its media workers died and the whole room router has closed. */
  onLost: () => void;
};

/**
 * The media of one room. It begins on one media worker, the primary branch, with one plain leg that carries every WebSocket
 * peer, and a WebRTC leg for each browser. Browsers that are too many for it are put on branches on other media workers;
 * every producer is piped to the primary branch, and from there to all others, under one id.
 */
export class RoomRouter {
  readonly #parts: RoomRouterParts;
  readonly #primary: Branch;
  /** The primary first, then in the order in which they are filled; a branch has every producer when it is added. */
  readonly #branches: Branch[];
  readonly #opening = new Set<Branch>();
  #spreading: Promise<boolean> | undefined;
  /** Number of browsers for which a leg is being reserved: some may wait for a further branch. */
  #reserving = 0;
  #spreadNotBeforeMs = 0;
  /** Producers, as they are on the primary branch. */
  readonly #producers = new Set<Producer>();
  #leastSpeakers: number;
  #plainLeg: PlainLeg | undefined;
  #closed = false;

  private constructor(primary: Branch, parts: RoomRouterParts) {
    this.#primary = primary;
    this.#branches = [primary];
    this.#parts = parts;
    this.#leastSpeakers = parts.expectedSpeakers;
  }

  /** @throws {Error} if the media worker dies or hangs meanwhile */
  static async open(worker: MediaWorker, parts: RoomRouterParts): Promise<RoomRouter> {
    const primary = await Branch.open(worker, { onEmpty: () => {}, onLost: () => room.#lost() });
    const room = new RoomRouter(primary, parts);
    try {
      const leg = await PlainLeg.open(primary.router, (producer) => room.published(producer));
      if (room.#closed) {
        leg.close();
        throw new Error('the media worker died meanwhile');
      }
      room.#plainLeg = leg;
      return room;
    } catch (fault) {
      room.close();
      throw fault;
    }
  }

  /**
   * Number of speakers to reckon with, including those of the router before it that may come back: it falls by one with each that ends, and
   * not with time. When a media worker is lost, the number remains, for the next router.
   */
  get expectedSpeakers(): number {
    return Math.max(this.#producers.size, this.#leastSpeakers);
  }

  get plainLeg(): PlainLeg {
    if (this.#plainLeg) return this.#plainLeg;
    throw new Error('the router has not been opened yet');
  }

  get rtpCapabilities(): RtpCapabilities {
    return this.#primary.router.rtpCapabilities;
  }

  /**
   * Opens a browser's leg on a branch with capacity, on a further media worker if necessary.
   * @throws {PartylineError} `media_lost` if a media worker of the room dies, or hangs, meanwhile
   */
  async openWebRtcLeg(events: WebRtcLegEvents): Promise<WebRtcLeg> {
    try {
      const branch = await this.#reserveLeg();
      return await branch.openLeg(events, (producer) => this.#publishedOn(branch, producer));
    } catch (fault) {
      if (this.#closed) throw mediaLost(fault);
      throw fault;
    }
  }

  /**
   * Opens the input of a client that hears nothing from this router. It is on the primary branch, and takes
   * no capacity from listeners.
   * @throws {PartylineError} `media_lost` if the media worker dies, or hangs, meanwhile
   */
  async openInput(options: WebRtcInputOptions): Promise<WebRtcInput> {
    const { router, worker } = this.#primary;
    const { webRtcServer } = worker;
    try {
      return await WebRtcInput.open(
        { router, webRtcServer },
        (made) => this.published(made),
        options,
      );
    } catch (fault) {
      if (this.#closed) throw mediaLost(fault);
      throw fault;
    }
  }

  /**
   * Pipes a producer of the primary branch to all others; the creator of a producer calls this before
   * announcing it. Resolves when it can be consumed everywhere.
   */
  async published(producer: Producer, origin = this.#primary): Promise<void> {
    this.#producers.add(producer);
    producer.observer.once('close', () => this.#producerClosed(producer));
    const others = [...this.#branches, ...this.#opening].filter(
      (branch) => branch !== this.#primary && branch !== origin,
    );
    await Promise.all(others.map((branch) => branch.takeFromPrimary(producer)));
  }

  /** Opens this node's end of a pipe to the same room on another node. */
  openNodePipe(address: ListenAddress, portRange: PipeSettings['portRange']): Promise<NodePipe> {
    const publish = (producer: Producer) => this.published(producer);
    return NodePipe.open(this.#primary.router, address, portRange, publish);
  }

  /** Closes the routers and with them every transport, producer and consumer. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#plainLeg?.close();
    for (const branch of [...this.#branches, ...this.#opening]) branch.close();
  }

  #producerClosed(producer: Producer): void {
    // Its media worker was lost, or the room is over.
    if (this.#branches.some(({ router }) => router.closed)) return;
    this.#producers.delete(producer);
    if (this.#leastSpeakers > 0) this.#leastSpeakers -= 1;
  }

  async #publishedOn(branch: Branch, producer: Producer): Promise<void> {
    if (branch === this.#primary) return this.published(producer);
    const onPrimary = await branch.giveToPrimary(producer);
    if (onPrimary) await this.published(onPrimary, branch);
  }

  /**
   * Reserves a leg on the first branch with capacity; if none has any and there is no further media worker, on the one
   * with the fewest legs. Browsers that come at the same moment see each other's reservations.
   */
  async #reserveLeg(): Promise<Branch> {
    this.#reserving += 1;
    try {
      for (;;) {
        const roomy = this.#branches.find((branch) => this.#hasRoom(branch));
        if (roomy) return roomy.reserveLeg();
        this.#spreading ??= this.#spread().finally(() => (this.#spreading = undefined));
        if (await this.#spreading) continue;
        const [emptiest] = this.#branches.toSorted((one, other) => one.legs - other.legs);
        return (emptiest ?? this.#primary).reserveLeg();
      }
    } finally {
      this.#reserving -= 1;
      if (this.#reserving === 0) this.#drawBackUnused();
    }
  }

  /** Closes branches that were opened for browsers which found a place elsewhere, because others had left. */
  #drawBackUnused(): void {
    const unused = this.#branches.filter(({ legs }) => legs === 0);
    for (const branch of unused) this.#drawBack(branch);
  }

  /** True if a branch can take one more browser: each one may consume every producer. */
  #hasRoom({ legs }: Branch): boolean {
    return legs * this.expectedSpeakers < this.#parts.maxConsumers;
  }

  /** Opens another branch on one of the other media workers; returns false if none takes it, or none did a moment ago. */
  async #spread(): Promise<boolean> {
    if (performance.now() < this.#spreadNotBeforeMs) return false;
    const { chooseOther, spreadAgainAfterMs } = this.#parts;
    const failed: MediaWorker[] = [];
    const faults: unknown[] = [];
    for (;;) {
      const taken = this.#branches.map((branch) => branch.worker);
      const worker = chooseOther([...taken, ...failed]);
      if (!worker || this.#closed) break;
      const fault = await this.#spreadTo(worker);
      if (fault === undefined) return true;
      // One that has died is replaced, and not chosen until then.
      if (worker.isLost) continue;
      failed.push(worker);
      faults.push(fault);
    }
    if (faults.length === 0) return false;
    for (const fault of faults) noteShortage(fault);
    this.#spreadNotBeforeMs = performance.now() + spreadAgainAfterMs;
    return false;
  }

  /** Opens a branch, and pipes every producer to it. @returns the fault, if that fails */
  async #spreadTo(worker: MediaWorker): Promise<unknown> {
    let branch: Branch | undefined;
    try {
      branch = await Branch.open(worker, {
        onEmpty: () => this.#drawBack(branch),
        onLost: () => this.#branchLost(branch),
      });
      await this.#fill(branch);
      return undefined;
    } catch (fault) {
      branch?.close();
      const where = { err: fault, mediaWorker: worker.index };
      this.#parts.log.warn(where, 'room not spread');
      return fault;
    }
  }

  async #fill(branch: Branch): Promise<void> {
    await branch.connect(this.#primary.router);
    if (this.#closed) throw new Error('the room was closed meanwhile');
    this.#opening.add(branch);
    try {
      await Promise.all([...this.#producers].map((producer) => branch.takeFromPrimary(producer)));
      if (branch.router.closed) throw new Error('closed meanwhile');
      this.#branches.push(branch);
    } finally {
      this.#opening.delete(branch);
    }
  }

  /** Closes an empty branch; the pipes to it close with its router. */
  #drawBack(branch: Branch | undefined): void {
    const index = branch ? this.#branches.indexOf(branch) : -1;
    if (index < 1) return;
    this.#branches.splice(index, 1);
    branch?.close();
  }

  /** Ignores the loss of a branch that is still empty. */
  #branchLost(branch: Branch | undefined): void {
    if (branch && this.#branches.includes(branch)) this.#lost();
  }

  /** Closes all branches; {@link open} reports a loss before it has resolved by rejecting. */
  #lost(): void {
    if (this.#closed) return;
    const wasOpen = this.#plainLeg !== undefined;
    this.close();
    if (wasOpen) this.#parts.onLost();
  }
}
