import type { FastifyBaseLogger } from 'fastify';
import type { Downlink } from '../bridge/downlink.ts';
import type { RateEvents, RtpBudget } from '../bridge/rtp-budget.ts';
import { mediaLost } from '../media/webrtc-leg.ts';
import type { Peer, RoomProducer } from './peer.ts';
import type { RtpBudgets } from './rtp-budgets.ts';

export type ProducersParts = {
  /** Passes the audio of the router's producers to the mixer. */
  downlink: Downlink;
  /** Returns whether a peer is in the room on this node. */
  isHere: (name: string) => boolean;
  /** Returns whether a peer is in the room, on any node. */
  isInRoom: (name: string) => boolean;
  speakerOf: (name: string) => number;
  /** Called before the first packet of a producer of another node, whose peer is a speaker of the mixer by then. */
  onRemoteAdded: (name: string) => void;
  /** Called when a producer has ended. */
  onRemoved: (id: string) => void;
  accountId: number;
  rtpBudgets: RtpBudgets;
  log: FastifyBaseLogger;
};

/** Producer that is being connected to the mixer. `outcome` tells whether it still is to be heard then. */
type PendingProducer = { readonly owner: Peer; outcome: 'heard' | 'ended' | 'lost' };

/** Producers on this node's router of a room: those of its peers, and those piped from other nodes; and the browsers that hear them. */
export class Producers {
  readonly #parts: ProducersParts;
  readonly #downlink: Downlink;
  readonly #browsers = new Set<Peer>();
  /** Producers that are heard, by id. */
  readonly #producers = new Map<string, RoomProducer>();
  /** Producers of peers of this node that are being connected to the mixer, by id. */
  readonly #opening = new Map<string, PendingProducer>();
  /** Names of peers by the ids of their producers on other nodes, also of those that are not heard yet. */
  readonly #remote = new Map<string, string>();

  constructor(parts: ProducersParts) {
    this.#parts = parts;
    this.#downlink = parts.downlink;
  }

  has(id: string): boolean {
    return this.#producers.has(id);
  }

  /** True while a browser hears the producers. */
  get hasBrowsers(): boolean {
    return this.#browsers.size > 0;
  }

  addBrowser(peer: Peer): void {
    this.#browsers.add(peer);
  }

  /** Offers all producers to a browser. */
  announceTo(peer: Peer): void {
    for (const producer of this.#producers.values()) {
      if (producer.peer !== peer.name) peer.producerAdded(producer);
    }
  }

  /**
   * Connects a producer of a peer of this node to the mixer. Resolves when the mixer hears it.
   * @returns false if the producer has ended meanwhile, for example with its peer; nothing of it is left then
   * @throws {PartylineError} `media_lost` if the router has closed meanwhile
   */
  async open(peer: Peer, id: string, events: RateEvents): Promise<boolean> {
    const opening: PendingProducer = { owner: peer, outcome: 'heard' };
    this.#opening.set(id, opening);
    try {
      const options = { budget: this.budgetOf(peer), ...events, isRunning: () => false };
      await this.#downlink.add(peer.name, this.#parts.speakerOf(peer.name), id, options);
    } catch (fault) {
      // Requests of a producer that has ended are rejected.
      if (opening.outcome === 'heard') throw fault;
    } finally {
      this.#opening.delete(id);
    }
    if (opening.outcome === 'lost') throw mediaLost(undefined);
    return opening.outcome === 'heard';
  }

  /** Returns the budget of a peer, which all of its producers share. */
  budgetOf({ name }: Peer): RtpBudget {
    const { accountId, rtpBudgets } = this.#parts;
    return rtpBudgets.of(accountId, name, performance.now());
  }

  /** Offers a producer to the browsers, unless it has been offered. */
  add(producer: RoomProducer): void {
    if (this.#producers.has(producer.id)) return;
    this.#producers.set(producer.id, producer);
    for (const peer of this.#browsers) {
      if (peer.name !== producer.peer) peer.producerAdded(producer);
    }
  }

  /** Removes a browser that leaves, and all producers of a peer. */
  removePeer(peer: Peer): void {
    this.#browsers.delete(peer);
    this.removeOf(peer);
  }

  /** Removes all producers of a peer of this node, including those being opened. @returns true if there was one */
  removeOf(peer: Peer): boolean {
    const openings = [...this.#opening].filter(([, { owner }]) => owner === peer);
    for (const [id, opening] of openings) {
      opening.outcome = 'ended';
      this.#downlink.remove(id);
    }
    const producers = [...this.#producers.values()].filter(({ owner }) => owner === peer);
    for (const { id } of producers) this.#remove(id);
    return openings.length + producers.length > 0;
  }

  /**
   * Connects a producer of another node; if its peer still is on this node, {@link hearRemote} does so later.
   * @param isRunning returns true if its first packets here may be from the middle of a stream
   */
  async addRemote(name: string, id: string, isRunning: () => boolean): Promise<void> {
    this.#remote.set(id, name);
    await this.#hear(name, id, isRunning);
  }

  removeRemote(id: string): void {
    this.#remote.delete(id);
    this.#downlink.remove(id);
    if (this.#producers.has(id)) this.#remove(id);
  }

  /** Connects the producers that a peer has on other nodes; to be called when it has left this one. */
  hearRemote(name: string): void {
    for (const [id, of] of this.#remote) {
      if (of !== name) continue;
      // The producer was announced earlier, and may have sent packets since.
      this.#hear(name, id, () => true).catch((fault: unknown) => {
        // Requests of a producer that has ended meanwhile are rejected.
        if (this.#remote.has(id))
          this.#parts.log.error({ err: fault }, 'producer of another node not connected');
      });
    }
  }

  /** Forgets all producers of a router that has closed. */
  clear(): void {
    this.#downlink.clear();
    for (const opening of this.#opening.values()) {
      if (opening.outcome === 'heard') opening.outcome = 'lost';
    }
    this.#producers.clear();
  }

  /** Connects a producer of another node, unless its peer still is on this node, from which it is heard until it has left. */
  async #hear(name: string, id: string, isRunning: () => boolean): Promise<void> {
    const { isHere, isInRoom, speakerOf, onRemoteAdded, rtpBudgets } = this.#parts;
    // The peer may have left while its producer was piped. Its speaker number would then never be
    // released.
    if (isHere(name) || !isInRoom(name)) return;
    // Its own node ends a peer that exceeds its budget.
    const budget = rtpBudgets.open(performance.now());
    const options = { budget, onWarned: () => {}, onExceeded: () => {}, isRunning };
    const added = this.#downlink.add(name, speakerOf(name), id, options);
    onRemoteAdded(name);
    await added;
    if (this.#remote.has(id)) this.add({ id, peer: name, owner: undefined });
  }

  #remove(id: string): void {
    this.#producers.delete(id);
    for (const peer of this.#browsers) peer.producerRemoved(id);
    this.#downlink.remove(id);
    this.#parts.onRemoved(id);
  }
}
