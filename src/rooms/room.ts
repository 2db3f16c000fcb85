import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { FrameClock } from '../audio/clock.ts';
import type { Cluster } from '../cluster/cluster.ts';
import type { RoomLink } from '../cluster/room-link.ts';
import type { PlacedPeer } from '../cluster/room-state.ts';
import { Mixer } from '../audio/mixing/mixer.ts';
import type { MixHost } from '../audio/mixing/mix-host.ts';
import { Downlink } from '../bridge/downlink.ts';
import type { IceServers } from '../media/ice-servers.ts';
import type { ClientTransportOptions } from '../media/client-transport.ts';
import type { WebRtcOutput } from '../media/listening-router.ts';
import type { MediaWorkerPool } from '../media/media-worker-pool.ts';
import type { RoomRouter } from '../media/room-router.ts';
import type { WebRtcInput, WebRtcInputOptions } from '../media/webrtc-input.ts';
import type { WebRtcLeg, WebRtcLegEvents } from '../media/webrtc-leg.ts';
import type {
  LeaveReason,
  PeerDescription,
  PeerKind,
  ServerMessage,
  SpeakingPeer,
} from '../protocol/messages.ts';
import { ECHO_ROOM } from '../protocol/names.ts';
import type { Slices } from '../slices.ts';
import { Echo, ECHO_PEER, isEchoRoom } from './echo.ts';
import type { AudioFortunes, Peer, RoomProducer } from './peer.ts';
import { Relay } from './relay.ts';
import { RemotePeers } from './remote-peers.ts';
import { RoomMedia } from './room-media.ts';
import { Roster } from './roster.ts';
import { SpeakingReporter } from './speaking-reporter.ts';

export type RoomParts = {
  /** A peer of this node has come into a room; told again, it is there still. */
  onJoined: (accountId: number, room: string, peer: string, kind: PeerKind) => void;
  /** A peer of this node has gone out of a room. */
  onLeft: (accountId: number, room: string, peer: string, reason: LeaveReason) => void;
  /** Counts a peer of an account in, until what it returns is called. */
  meterPeer: (accountId: number, room: string, kind: PeerKind) => () => void;
  /** So many peers are in a room now, over all nodes. */
  meterSize: (accountId: number, room: string, peers: number) => void;
  /** Charges an account for messages of unknown formats. @returns false if its budget is used up */
  chargeRelay: (accountId: number, cost: number) => boolean;
  pool: MediaWorkerPool;
  cluster: Cluster;
  mixHost: MixHost;
  clock: FrameClock;
  slices: Slices;
  iceServers: IceServers;
  log: FastifyBaseLogger;
  /** So many of the loudest are mixed. */
  maxMixedSpeakers: number;
  /** Level from which a speaker counts as talking: dBov, negative. */
  talkThresholdDbov: number;
  talkHoldMs: number;
};

/** A packet waits for its tick besides, and to run ahead for the packet after it: for 20 ms and more. */
const JITTER_BUFFER_LIMITS = { minMs: 5, maxMs: 200 };

/** Whose room it is, and what it is called. */
export type RoomPlace = { accountId: number; name: string };

/** A peer of this node, as an operator sees it. */
export type PeerState = {
  peer: string;
  kind: PeerKind;
  /** Its connection is lost, and its place kept. */
  isAway: boolean;
  /** dBov; undefined while it does not talk. */
  levelDbov: number | undefined;
  fortunes: AudioFortunes | undefined;
};

/**
 * One room as it is on this node: who is in it (also on other nodes), who produces, and its media: a router, and the
 * mixer for those who listen over a WebSocket.
 */
export class Room {
  readonly log: FastifyBaseLogger;
  readonly clock: FrameClock;
  readonly iceServers: IceServers;
  readonly mixer: Mixer;
  /** Messages of unknown formats. */
  readonly relay: Relay;
  readonly #downlink: Downlink;
  readonly #speaking: SpeakingReporter;
  /** Notes how many peers are in the room, over all nodes. */
  readonly #noteSize: (peers: number) => void;
  readonly #roster = new Roster(
    (peer, muted) => this.#broadcast({ type: 'peer_changed', peer, muted }, peer),
    (changed) => this.#broadcast({ type: 'peer_changed', ...changed }, changed.peer),
  );
  /** Of this node. */
  readonly #peers = new Map<string, Peer>();
  readonly #browsers = new Set<Peer>();
  /** Other ways of peers that are in the room, of this node, which are about to take over. */
  readonly #prepared = new Set<Peer>();
  readonly #remotePeers = new RemotePeers(this.#roster);
  /** Of this node, those whose connections are lost, and whose places are kept. */
  readonly #suspended = new Set<Peer>();
  /** Producers of other nodes, on this node's router: id → name. */
  readonly #remoteProducers = new Map<string, string>();
  /** By id; of every node. */
  readonly #producers = new Map<string, RoomProducer>();
  readonly place: RoomPlace;
  readonly #parts: Pick<RoomParts, 'meterPeer' | 'onJoined' | 'onLeft' | 'pool' | 'slices'>;
  #echo: Echo | undefined;
  readonly #stopMetering = new Map<Peer, () => void>();
  /** Both are there once the room is open. */
  #media!: RoomMedia;
  #link!: RoomLink;

  private constructor(parts: RoomParts & RoomPlace) {
    this.log = parts.log;
    this.clock = parts.clock;
    this.iceServers = parts.iceServers;
    this.place = { accountId: parts.accountId, name: parts.name };
    const metered = isEchoRoom(parts.name) ? ECHO_ROOM : parts.name;
    this.#noteSize = (peers) => parts.meterSize(parts.accountId, metered, peers);
    this.#parts = parts;
    this.mixer = new Mixer(
      parts.mixHost,
      parts.clock,
      {
        talkers: {
          thresholdLevel: -parts.talkThresholdDbov,
          holdMs: parts.talkHoldMs,
          maxMixed: parts.maxMixedSpeakers,
        },
        jitterBuffer: JITTER_BUFFER_LIMITS,
      },
      () => this.#speaking.talkersChanged(),
    );
    this.relay = new Relay({
      slices: parts.slices,
      countNodes: () => this.#link.otherNodes,
      sendToNodes: (peer, message) => this.#link.relay(peer, message),
      charge: (cost) => parts.chargeRelay(parts.accountId, cost),
      onTalkersChanged: () => this.#speaking.talkersChanged(),
      isInRoom: (peer) => this.#roster.has(peer),
      holdMs: parts.talkHoldMs,
    });
    this.#downlink = new Downlink(
      () => this.router,
      this.mixer,
      () => parts.mixHost.openLevelMeter(),
      (peer) => this.#peers.get(peer)?.kind === 'websocket',
    );
    this.#speaking = new SpeakingReporter(
      () => this.#talking(),
      (peers) => this.#broadcast({ type: 'speaking', peers }),
    );
  }

  /** Opens a room with nobody in it on this node. */
  static async open(parts: RoomParts & RoomPlace): Promise<Room> {
    const room = new Room(parts);
    const { accountId, name, log } = parts;
    const opened = await Promise.allSettled([
      RoomMedia.open(parts.pool, log, room.#mediaEvents).then((media) => (room.#media = media)),
      parts.cluster
        .openRoom(accountId, name, room.#linkEvents, log)
        .then((link) => (room.#link = link)),
    ]);
    const failed = opened.find((part) => part.status === 'rejected');
    if (failed) {
      room.close();
      throw failed.reason;
    }
    if (room.#media.isThere) room.#link.setRouter(room.router);
    return room;
  }

  /** @throws {PartylineError} `media_lost` while it is being replaced */
  get router(): RoomRouter {
    return this.#media.router;
  }

  /** Opens a browser's leg. @throws {PartylineError} `media_lost` */
  openWebRtcLeg(events: WebRtcLegEvents): Promise<{ leg: WebRtcLeg; router: RoomRouter }> {
    return this.#media.openWebRtcLeg(events);
  }

  /** Opens what a client sends that hears the mixer. @throws {PartylineError} `media_lost` */
  openInput(options: WebRtcInputOptions): Promise<WebRtcInput> {
    return this.#media.openInput(options);
  }

  /** Opens a stream to a client that hears the mixer. @throws {Error} if no media worker can */
  openOutput(payloadType: number, options: ClientTransportOptions): Promise<WebRtcOutput> {
    return this.#parts.pool.openOutput(payloadType, options);
  }

  /** Everybody in the room but `self`, on whatever node. */
  others(self: Peer): PeerDescription[] {
    return this.#roster.others(self.name);
  }

  /** Returns whether a peer is in the room, on any node. */
  hasPeer(name: string): boolean {
    return this.#roster.has(name);
  }

  /** Who is in the room on this node, and how each fares. */
  describePeers(): PeerState[] {
    const levels = new Map(this.mixer.speaking().map((talker) => [talker.peer, talker.level_dbov]));
    return [...this.#peers.values()].map((peer) => ({
      peer: peer.name,
      kind: peer.kind,
      isAway: this.#suspended.has(peer),
      levelDbov: levels.get(peer.name),
      fortunes: peer.fortunes,
    }));
  }

  /** The number that stands for a peer in the head of forwarded frames. */
  speakerOf(name: string): number {
    return this.#roster.speakerOf(name);
  }

  /** Lets a peer in; the others are told, if it was not there before. */
  enter(peer: Peer): void {
    const { name, kind } = peer;
    if (this.#isEcho) this.#echo ??= this.#openEcho(name);
    this.#peers.set(name, peer);
    this.#updateMetering(peer);
    if (kind === 'webrtc') {
      if (peer.hearsProducers) this.#browsers.add(peer);
    } else {
      this.#downlink.removePeer(name);
      this.mixer.addSpeaker(name, this.speakerOf(name));
    }
    this.#joined(this.#roster.enter(name, kind, peer, peer.isMuted));
    this.#remotePeers.supersede(name);
    this.#place(peer, false);
    if (!this.#isEcho) this.#parts.onJoined(this.place.accountId, this.place.name, name, kind);
  }

  /** Makes ready another way of a peer that is in the room. It is told of producers, and may have one, which is not heard yet. */
  prepare(peer: Peer): void {
    this.#prepared.add(peer);
    if (peer.hearsProducers) this.#browsers.add(peer);
  }

  /** A peer goes on in a way that was prepared: the others see no leave. `before` is to be closed then. */
  change(before: Peer, after: Peer): void {
    const { name, kind, isMuted } = after;
    this.#prepared.delete(after);
    if (this.#peers.get(name) !== before) return;
    this.#stopMetering.get(before)?.();
    this.#stopMetering.delete(before);
    this.#peers.set(name, after);
    this.#updateMetering(after);
    if (kind === 'websocket') {
      this.#downlink.removePeer(name);
      if (this.mixer.hasSpeaker(name)) this.mixer.cutSpeaker(name);
      else this.mixer.addSpeaker(name, this.speakerOf(name));
    } else if (!this.#downlink.hears(name)) this.mixer.removeSpeaker(name);
    // The packets of a WebSocket peer say themselves whether it is muted.
    this.mixer.setMuted(name, kind === 'webrtc' && isMuted);
    this.#roster.handOver(name, before, after, { kind, muted: isMuted });
    this.#place(after, false);
    if (!this.#isEcho) this.#parts.onJoined(this.place.accountId, this.place.name, name, kind);
  }

  /** The peer's connection is lost: nobody is told. Its time is counted only while its media flows without it. */
  suspend(peer: Peer): void {
    if (this.#peers.get(peer.name) !== peer) return;
    this.#suspended.add(peer);
    this.#updateMetering(peer);
    if (this.#remotePeers.isConnected(peer.name)) peer.displaced();
    else this.#place(peer, true);
  }

  /** The peer is back. */
  resume(peer: Peer): void {
    if (this.#peers.get(peer.name) !== peer) return;
    this.#suspended.delete(peer);
    this.#updateMetering(peer);
    this.#place(peer, false);
  }

  /** `isMuted` of a peer may not be what it was. */
  mutedChanged(peer: Peer): void {
    if (this.#peers.get(peer.name) !== peer) return;
    // The packets of a WebSocket peer say themselves whether it is muted; those of a browser do not come.
    if (peer.kind === 'webrtc') this.mixer.setMuted(peer.name, peer.isMuted);
    this.#roster.setMuted(peer.name, peer, peer.isMuted);
    this.#link.setMuted(peer.name, peer.isMuted);
  }

  /** `hasMediaPath` of a peer may not be what it was. */
  mediaPathChanged(peer: Peer): void {
    if (this.#suspended.has(peer)) this.#updateMetering(peer);
  }

  /** What is said in the room already, for a peer who has entered and is ready to hear it. */
  announceProducersTo(peer: Peer): void {
    for (const producer of this.#producers.values()) {
      if (producer.peer !== peer.name) peer.producerAdded(producer);
    }
  }

  /** Lets a peer out, with what it produced; the others are told, unless it is there in another way. Called by the peer as it closes. */
  leave(peer: Peer, reason: LeaveReason): void {
    const { name } = peer;
    this.#stopMetering.get(peer)?.();
    this.#stopMetering.delete(peer);
    this.#suspended.delete(peer);
    this.#browsers.delete(peer);
    this.#prepared.delete(peer);
    this.removeProducersOf(peer);
    if (this.#peers.get(name) === peer) {
      this.#peers.delete(name);
      if (!this.#downlink.hears(name)) this.mixer.removeSpeaker(name);
      this.#link.removePeer(name, reason);
      if (!this.#isEcho) {
        this.#parts.onLeft(this.place.accountId, this.place.name, name, reason);
      }
    }
    this.#left(this.#roster.leave(name, peer), reason);
    this.#hearRemote(name);
  }

  /** Resolves when all that is said on other nodes is heard on this one. */
  hearsAll(): Promise<void> {
    return this.#link.hearsAll();
  }

  /** Relays a message of an unknown format that a peer of this node sends. */
  relayMessage(peer: string, message: Buffer): void {
    this.relay.send(peer, message);
    this.#echo?.later(() => this.relay.receive(ECHO_PEER, message));
  }

  /** What is sent to the router is heard by somebody. */
  get isRouted(): boolean {
    return (this.#browsers.size > 0 || this.#link.isShared) && this.#media.isThere;
  }

  /** Makes what a browser produces heard by everybody else; resolves when the WebSocket peers will not miss a packet. */
  async addBrowserProducer(peer: Peer, id: string): Promise<void> {
    if (!this.#isHere(peer)) return;
    await this.#downlink.add(peer.name, this.speakerOf(peer.name), id);
    if (!this.#prepared.has(peer)) this.mixer.setMuted(peer.name, peer.isMuted);
    if (this.#isHere(peer)) await this.addProducer(peer, id);
    else this.#downlink.remove(id);
  }

  /** Makes a producer heard by the browsers, and on the other nodes; resolves when those will not miss a packet. */
  async addProducer(peer: Peer, id: string): Promise<void> {
    if (!this.#isHere(peer)) return;
    this.#addProducer({ id, peer: peer.name, owner: peer });
    await this.#link.addProducer(peer.name, id);
  }

  /** Returns when the last packet of a browser's producer came, ms; undefined before the first. */
  lastPacketAtMs(producerId: string): number | undefined {
    return this.#downlink.lastPacketAtMs(producerId);
  }

  /** A peer of this node produces nothing any more. @returns whether it did */
  removeProducersOf(peer: Peer): boolean {
    const producers = [...this.#producers.values()].filter(({ owner }) => owner === peer);
    for (const producer of producers) this.#removeProducer(producer);
    return producers.length > 0;
  }

  /** Does work for a peer that may wait a moment, in turn with that of other rooms. */
  doLater(work: () => Promise<void>): void {
    this.#parts.slices.add(this.#browsers, work);
  }

  /** Who speaks already, for a peer who has entered: reports come only when that changes. */
  tellSpeakersTo(peer: Peer): void {
    const peers = this.#talking();
    if (peers.length > 0) peer.notify({ type: 'speaking', peers });
  }

  hasProducer(id: string): boolean {
    return this.#producers.has(id);
  }

  close(): void {
    this.#speaking.close();
    this.#echo?.close();
    this.mixer.close();
    this.#media?.close();
    // It tells the others by itself; whoever closes the cluster waits for that.
    void this.#link?.close();
  }

  #isHere(peer: Peer): boolean {
    return this.#peers.get(peer.name) === peer || this.#prepared.has(peer);
  }

  get #isEcho(): boolean {
    return isEchoRoom(this.place.name);
  }

  #openEcho(peer: string): Echo {
    const parts = {
      mixer: this.mixer,
      clock: this.clock,
      router: () => this.router,
      isRouted: () => this.isRouted,
      onProducer: (id: string) => this.#addProducer({ id, peer: ECHO_PEER, owner: undefined }),
      log: this.log,
    };
    return new Echo(parts, this.speakerOf(peer));
  }

  /** Peers that talk now, with their levels as far as these are known. */
  #talking(): SpeakingPeer[] {
    const heard: SpeakingPeer[] = this.mixer.speaking().filter(({ peer }) => peer !== ECHO_PEER);
    for (const peer of this.relay.talking()) {
      if (!heard.some((other) => other.peer === peer)) heard.push({ peer });
    }
    return heard;
  }

  /** Tells the other nodes that a peer has a place here. @param away its connection is lost */
  #place({ name, kind, isMuted }: Peer, away: boolean): void {
    this.#link.setPeer(name, kind, randomUUID(), away, isMuted);
  }

  /** Counts the time of a peer that has a connection, or whose media flows without one; no other's. */
  #updateMetering(peer: Peer): void {
    const isMetered = !this.#suspended.has(peer) || peer.hasMediaPath;
    const stop = this.#stopMetering.get(peer);
    if (isMetered === (stop !== undefined)) return;
    stop?.();
    if (stop) this.#stopMetering.delete(peer);
    const { accountId, name } = this.place;
    const room = this.#isEcho ? ECHO_ROOM : name;
    if (isMetered) {
      this.#stopMetering.set(peer, this.#parts.meterPeer(accountId, room, peer.kind));
      this.#noteSize(this.#roster.size);
    }
  }

  /** What the other nodes have in the room. */
  readonly #linkEvents = {
    onPeers: (node: string, peers: PlacedPeer[], reasons: ReadonlyMap<string, LeaveReason>) => {
      const { joined, left } = this.#remotePeers.update(node, peers, reasons);
      for (const peer of joined) this.#joined(peer);
      for (const { peer, reason } of left) this.#left(peer, reason);
      for (const peer of this.#suspended) {
        if (this.#remotePeers.isConnected(peer.name)) peer.displaced();
      }
    },
    onProducer: (name: string, id: string) => {
      this.#remoteProducers.set(id, name);
      return this.#hearProducer(name, id);
    },
    onProducerClosed: (id: string) => {
      this.#remoteProducers.delete(id);
      this.#downlink.remove(id);
      const producer = this.#producers.get(id);
      if (producer) this.#removeProducer(producer);
    },
    onRelayed: (peer: string, message: Buffer) => this.relay.receive(peer, message),
  };

  /** Who is on its way from one node to the other is heard from here until it has left here. */
  async #hearProducer(name: string, id: string): Promise<void> {
    if (this.#peers.has(name)) return;
    await this.#downlink.add(name, this.speakerOf(name), id);
    if (this.#remoteProducers.has(id)) this.#addProducer({ id, peer: name, owner: undefined });
  }

  /** A peer has left here; what it says on another node is heard now. */
  #hearRemote(name: string): void {
    for (const [id, of] of this.#remoteProducers) {
      if (of !== name) continue;
      this.#hearProducer(name, id).catch((fault: unknown) => {
        // A producer that has gone meanwhile takes its requests with it.
        if (this.#remoteProducers.has(id)) this.log.error({ err: fault }, 'a peer is not heard');
      });
    }
  }

  #addProducer(producer: RoomProducer): void {
    this.#producers.set(producer.id, producer);
    for (const peer of this.#browsers) {
      if (peer.name !== producer.peer) peer.producerAdded(producer);
    }
  }

  #removeProducer({ id }: RoomProducer): void {
    this.#producers.delete(id);
    this.#downlink.remove(id);
    this.#link.removeProducer(id);
  }

  #joined(peer: PeerDescription | undefined): void {
    if (!peer) return;
    this.#noteSize(this.#roster.size);
    this.#broadcast({ type: 'peer_joined', ...peer }, peer.peer);
  }

  #left(peer: PeerDescription | undefined, reason: LeaveReason): void {
    if (!peer) return;
    this.#noteSize(this.#roster.size);
    this.relay.forget(peer.peer);
    const { peer: name, speaker } = peer;
    this.#broadcast({ type: 'peer_left', peer: name, speaker, reason }, name);
  }

  /** Everything that was on a media worker which died comes anew on another; what is said over WebSockets does not need it. */
  readonly #mediaEvents = {
    onLost: () => {
      this.#downlink.clear();
      this.#producers.clear();
      this.#link?.setRouter(undefined);
    },
    onReplaced: (router: RoomRouter) => {
      this.#link?.setRouter(router);
      this.#echo?.reset();
      for (const peer of [...this.#peers.values(), ...this.#prepared]) peer.mediaRestarted();
    },
  };

  /** Tells everybody in slices: in a large room that many enter at once this is most of the work. */
  #broadcast(message: ServerMessage, except?: string): void {
    const text = JSON.stringify(message);
    for (const peer of this.#peers.values()) {
      if (peer.name === except || !peer.notifyLater(text)) continue;
      this.#parts.slices.add(this, () => peer.flush());
    }
  }
}
