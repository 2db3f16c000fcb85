import { setTimeout as delay } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { FrameClock } from '../audio/clock.ts';
import { Mixer } from '../audio/mixing/mixer.ts';
import type { MixHost } from '../audio/mixing/mix-host.ts';
import { Downlink } from '../bridge/downlink.ts';
import type { MediaWorkerPool } from '../media/media-worker-pool.ts';
import type { RoomRouter } from '../media/room-router.ts';
import type {
  LeaveReason,
  PeerDescription,
  PeerKind,
  ServerMessage,
} from '../protocol/messages.ts';
import type { Peer, RoomProducer } from './peer.ts';
import { PartylineError } from '../protocol/errors.ts';
import { SpeakingReporter } from './speaking-reporter.ts';

export type RoomParts = {
  /** Counts a peer of an account in, until what it returns is called. */
  meterPeer: (accountId: number, room: string, kind: PeerKind) => () => void;
  pool: MediaWorkerPool;
  mixHost: MixHost;
  clock: FrameClock;
  log: FastifyBaseLogger;
  /** So many of the loudest are mixed. */
  maxMixedSpeakers: number;
  /** Level from which a speaker counts as talking: dBov, negative. */
  talkThresholdDbov: number;
  talkHoldMs: number;
};

const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 5000;
const JITTER_BUFFER_LIMITS = { minMs: 5, maxMs: 200 };

/** Whose room it is, and what it is called. */
export type RoomPlace = { accountId: number; name: string };

/** One room: who is in it, who produces, and its media: a router, and the mixer for those who listen over a WebSocket. */
export class Room {
  readonly log: FastifyBaseLogger;
  readonly #pool: MediaWorkerPool;
  readonly clock: FrameClock;
  readonly mixer: Mixer;
  readonly #downlink: Downlink;
  readonly #speaking: SpeakingReporter;
  readonly #peers = new Map<string, Peer>();
  readonly #producers = new Map<string, RoomProducer>();
  readonly #meterPeer: (peer: Peer) => () => void;
  readonly #stopMetering = new Map<Peer, () => void>();
  /** Undefined between the death of a media worker and the opening of a router on another. */
  #router: RoomRouter | undefined;
  #replacing: Promise<RoomRouter> | undefined;
  readonly #closing = new AbortController();
  #browsers = 0;
  #nextSpeaker = 0;

  private constructor(router: RoomRouter, parts: RoomParts & RoomPlace) {
    this.log = parts.log;
    this.#pool = parts.pool;
    this.#router = router;
    this.clock = parts.clock;
    const { accountId, name, meterPeer } = parts;
    this.#meterPeer = ({ kind }) => meterPeer(accountId, name, kind);
    this.mixer = new Mixer(
      parts.mixHost,
      parts.clock,
      {
        talkers: {
          thresholdDbov: -parts.talkThresholdDbov,
          holdMs: parts.talkHoldMs,
          maxMixed: parts.maxMixedSpeakers,
        },
        jitterBuffer: JITTER_BUFFER_LIMITS,
      },
      () => this.#speaking.talkersChanged(),
    );
    this.#downlink = new Downlink(() => this.router, this.mixer);
    this.#speaking = new SpeakingReporter(
      () => this.mixer.speaking(),
      (peers) => this.#broadcast({ type: 'speaking', peers }),
    );
  }

  /** Opens a room with nobody in it. */
  static async open(parts: RoomParts & RoomPlace): Promise<Room> {
    const router = await parts.pool.openRouter(() => room.#mediaLost());
    const room = new Room(router, parts);
    return room;
  }

  /** @throws {PartylineError} `media_lost` while it is being replaced */
  get router(): RoomRouter {
    if (this.#router) return this.#router;
    throw new PartylineError('media_lost', 'The media worker of the room died.');
  }

  /** The router, as soon as there is one. */
  async readyRouter(): Promise<RoomRouter> {
    return this.#router ?? (await this.#replacing) ?? this.router;
  }

  /** Everybody in the room but `self`. */
  others(self: Peer): PeerDescription[] {
    return [...this.#peers.values()].filter((peer) => peer !== self).map(describe);
  }

  /** A number for a peer who is about to enter, that nobody in the room has. */
  takeSpeakerNumber(): number {
    const taken = new Set([...this.#peers.values()].map(({ speaker }) => speaker));
    do this.#nextSpeaker = (this.#nextSpeaker + 1) & 0xffff;
    while (taken.has(this.#nextSpeaker));
    return this.#nextSpeaker;
  }

  /** Lets a peer in and tells the others. */
  enter(peer: Peer): void {
    this.#peers.set(peer.name, peer);
    this.#stopMetering.set(peer, this.#meterPeer(peer));
    if (peer.kind === 'webrtc') this.#browsers += 1;
    else this.mixer.addSpeaker(peer.name, peer.speaker);
    this.#broadcast({ type: 'peer_joined', ...describe(peer) }, peer);
  }

  /** What is said in the room already, for a peer who has entered and is ready to hear it. */
  announceProducersTo(peer: Peer): void {
    for (const producer of this.#producers.values()) {
      if (producer.peer !== peer.name) peer.producerAdded(producer);
    }
  }

  /** Lets a peer out, with what it produced, and tells the others. Called by the peer as it closes. */
  leave(peer: Peer, reason: LeaveReason): void {
    if (this.#peers.get(peer.name) !== peer) return;
    this.#peers.delete(peer.name);
    this.#stopMetering.get(peer)?.();
    this.#stopMetering.delete(peer);
    this.#producers.delete(peer.name);
    if (peer.kind === 'webrtc') this.#browsers -= 1;
    this.#downlink.remove(peer.name);
    const { name, speaker } = peer;
    this.#broadcast({ type: 'peer_left', peer: name, speaker, reason });
  }

  /** What is sent to the router is heard by somebody. */
  get isRouted(): boolean {
    return this.#browsers > 0 && this.#router !== undefined;
  }

  /** Makes what a browser produces heard by everybody else; resolves when the WebSocket peers will not miss a packet. */
  async addBrowserProducer(peer: Peer, id: string): Promise<void> {
    if (this.#peers.get(peer.name) !== peer) return;
    await this.#downlink.add(peer.name, peer.speaker, id);
    this.addProducer(peer, id);
  }

  /** Makes a producer heard by the browsers. */
  addProducer(peer: Peer, id: string): void {
    if (this.#peers.get(peer.name) !== peer) return;
    const producer = { id, peer: peer.name };
    this.#producers.set(peer.name, producer);
    for (const other of this.#peers.values()) if (other !== peer) other.producerAdded(producer);
  }

  /** Who speaks already, for a peer who has entered: reports come only when that changes. */
  tellSpeakersTo(peer: Peer): void {
    const peers = this.mixer.speaking();
    if (peers.length > 0) peer.notify({ type: 'speaking', peers });
  }

  hasProducer({ id, peer }: RoomProducer): boolean {
    return this.#producers.get(peer)?.id === id;
  }

  close(): void {
    this.#closing.abort();
    this.#speaking.close();
    this.mixer.close();
    this.#router?.close();
  }

  /** The media worker died: a router on another takes its place, and everybody is told. */
  #mediaLost(): void {
    this.#router = undefined;
    if (this.#closing.signal.aborted) return;
    this.log.warn('the media worker of the room died');
    this.#downlink.clear();
    this.#producers.clear();
    this.#replacing = this.#replaceRouter();
    // Its only fault is that the room was closed.
    this.#replacing.catch(() => {});
  }

  /** Media workers may die one after the other: tried again, ever more seldom, for as long as there is a room. */
  async #replaceRouter(): Promise<RoomRouter> {
    const { signal } = this.#closing;
    for (let waitMs = FIRST_RETRY_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_RETRY_MS)) {
      try {
        const router = await this.#pool.openRouter(() => this.#mediaLost());
        if (signal.aborted) router.close();
        signal.throwIfAborted();
        this.#router = router;
        for (const peer of this.#peers.values()) peer.mediaRestarted();
        return router;
      } catch (fault) {
        signal.throwIfAborted();
        this.log.warn({ err: fault }, 'the room has no media worker yet');
        await delay(waitMs, undefined, { signal });
      }
    }
  }

  #broadcast(message: ServerMessage, except?: Peer): void {
    for (const peer of this.#peers.values()) if (peer !== except) peer.notify(message);
  }
}

function describe({ name, kind, speaker }: Peer): PeerDescription {
  return { peer: name, kind, speaker };
}
