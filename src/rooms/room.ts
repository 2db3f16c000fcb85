import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { FrameClock } from '../audio/clock.ts';
import { RoomMixer } from '../audio/mixing/room-mixer.ts';
import { Downlink } from '../bridge/downlink.ts';
import type { RateEvents } from '../bridge/rtp-budget.ts';
import type { Route, UplinkTimings } from '../bridge/uplink.ts';
import type { RoomLink } from '../cluster/room-link.ts';
import type { IceServers } from '../media/ice-servers.ts';
import type { RoomRouter } from '../media/room-router.ts';
import type { LeaveReason, PeerDescription, SpeakingPeer } from '../protocol/messages.ts';
import type { Slices } from '../slices.ts';
import { Echo, ECHO_PEER, isEchoRoom } from './echo.ts';
import { Members, type PeerState } from './members.ts';
import type { Peer } from './peer.ts';
import { Producers } from './producers.ts';
import { Relay } from './relay.ts';
import { RoomMedia } from './room-media.ts';
import type { RoomParts, RoomKey } from './room-parts.ts';
import { SpeakingReporter } from './speaking-reporter.ts';

/** Bounds of the jitter buffer's target delay, ms. The wait for the next tick of the room is added to it (decisions 159 and 210). */
const JITTER_BUFFER_LIMITS = { minMs: 5, maxMs: 200 };

/** Parts that are opened before the room that they belong to. */
type OpenParts = { members: Members; media: RoomMedia; link: RoomLink };

/**
 * One room on this node: its members and its producers, wired to its media (a router, and the mixer for peers
 * that listen over a WebSocket) and to the same room on other nodes.
 */
export class Room {
  readonly key: RoomKey;
  readonly log: FastifyBaseLogger;
  readonly clock: FrameClock;
  readonly uplinkTimings: UplinkTimings;
  readonly iceServers: IceServers;
  readonly mixer: RoomMixer;
  /** Relay of messages of unknown formats. */
  readonly relay: Relay;
  readonly media: RoomMedia;
  readonly producers: Producers;
  /** Open while browsers or other nodes hear packets that are sent to the router. */
  readonly route: Route = { isOpen: false };
  readonly #members: Members;
  readonly #downlink: Downlink;
  readonly #link: RoomLink;
  readonly #slices: Slices;
  readonly #speaking: SpeakingReporter;
  #echo: Echo | undefined;

  private constructor(parts: RoomParts & RoomKey, { members, media, link }: OpenParts) {
    const { accountId, name, mixEngines } = parts;
    this.key = { accountId, name };
    this.log = parts.log;
    this.clock = parts.clock;
    this.uplinkTimings = parts.uplinkTimings;
    this.iceServers = parts.iceServers;
    this.#members = members;
    this.media = media;
    this.#link = link;
    this.#slices = parts.slices;
    this.#speaking = new SpeakingReporter(
      () => this.#talking(),
      (peers) => members.broadcast({ type: 'speaking', peers }),
    );
    const onActiveSpeakersChanged = () => this.#speaking.activeSpeakersChanged();
    const activeSpeakers = {
      thresholdLevel: -parts.talkThresholdDbov,
      holdMs: parts.talkHoldMs,
      maxMixed: parts.maxMixedSpeakers,
    };
    const settings = { activeSpeakers, jitterBuffer: JITTER_BUFFER_LIMITS };
    this.mixer = new RoomMixer(mixEngines, parts.clock, settings, onActiveSpeakersChanged);
    this.relay = new Relay({
      slices: parts.slices,
      countNodes: () => link.otherNodes,
      sendToNodes: (peer, message) => link.relay(peer, message),
      charge: (cost) => parts.chargeRelay(accountId, cost),
      onActiveSpeakersChanged,
      isInRoom: (peer) => members.has(peer),
      holdMs: parts.talkHoldMs,
    });
    this.#downlink = new Downlink(
      () => this.media.router,
      this.mixer,
      () => mixEngines.openLevelMeter(),
      (peer) => members.kindHere(peer) === 'websocket',
    );
    this.producers = new Producers({
      downlink: this.#downlink,
      isHere: (peer) => members.isHere(peer),
      isInRoom: (peer) => members.has(peer),
      speakerOf: (peer) => members.speakerOf(peer),
      onRemoteAdded: (peer) => this.#updateMutedElsewhere(peer),
      onRemoved: (id) => link.removeProducer(id),
      accountId,
      rtpBudgets: parts.rtpBudgets,
      log: parts.log,
    });
    if (media.isAvailable) link.setRouter(media.router);
    this.#updateRoute();
  }

  /** Opens a room without peers of this node. @throws the error of its router, or else of its link to other nodes */
  static async open(parts: RoomParts & RoomKey): Promise<Room> {
    const { accountId, name, pool, cluster, log } = parts;
    let room: Room | undefined;
    const members = new Members({ accountId, name }, parts, (peer) => room?.relay.forget(peer));
    // Other nodes may send their peers before the room is open; audio needs a router and a peer
    // here.
    const [media, link] = await Promise.allSettled([
      RoomMedia.open(pool, log, {
        onLost: () => room && room.#mediaLost(),
        onReplaced: (router) => room && room.#mediaReplaced(router),
      }),
      cluster.openRoom(
        accountId,
        name,
        {
          onPeers: (node, peers, reasons) => {
            members.updateRemote(node, peers, reasons);
            if (room) for (const { peer } of peers) room.#updateMutedElsewhere(peer);
          },
          onProducer: async (peer, id, isRunning) => room?.producers.addRemote(peer, id, isRunning),
          onProducerClosed: (id) => room?.producers.removeRemote(id),
          onShared: () => room && room.#updateRoute(),
          onRelayed: (peer, message) => room?.relay.receive(peer, message),
        },
        log,
      ),
    ]);
    if (media.status === 'fulfilled' && link.status === 'fulfilled') {
      room = new Room(parts, { members, media: media.value, link: link.value });
      return room;
    }
    if (media.status === 'fulfilled') media.value.close();
    if (link.status === 'fulfilled') void link.value.close();
    throw media.status === 'rejected' ? media.reason : (link as PromiseRejectedResult).reason;
  }

  /** Returns all peers of the room on all nodes except `self`. */
  others(self: Peer): PeerDescription[] {
    return this.#members.others(self);
  }

  /** Returns whether a peer is in the room, on any node. */
  hasPeer(name: string): boolean {
    return this.#members.has(name);
  }

  /** Returns the peers of this node with their statistics. */
  describePeers(): PeerState[] {
    const levels = new Map(this.#talking().map(({ peer, level_dbov }) => [peer, level_dbov]));
    return this.#members.describe(levels);
  }

  /** Returns the number of a peer in the header of forwarded frames; reserves one if it has none. */
  speakerOf(name: string): number {
    return this.#members.speakerOf(name);
  }

  /** Adds a peer, and announces it to the others if it is new. */
  enter(peer: Peer): void {
    const { name } = peer;
    if (this.#isEcho) this.#echo ??= this.#openEcho(name);
    if (peer.kind === 'webrtc') {
      if (peer.hearsProducers) this.producers.addBrowser(peer);
      this.#updateRoute();
    } else {
      this.#downlink.removePeer(name);
      this.mixer.addSpeaker(name, this.speakerOf(name));
      this.mixer.setPaced(name, true);
    }
    this.#members.enter(peer);
    this.#share(peer, false);
  }

  /** Adds `peer` as another way of a peer that is in the room. Until {@link change} it is offered producers, and its own producer is not heard. */
  prepare(peer: Peer): void {
    this.#members.prepare(peer);
    if (!peer.hearsProducers) return;
    this.producers.addBrowser(peer);
    this.#updateRoute();
  }

  /** Replaces a peer by its prepared way; the others see no leave. The caller closes `before`. */
  change(before: Peer, after: Peer): void {
    const { name, kind, isMuted } = after;
    if (!this.#members.change(before, after)) return;
    if (kind === 'websocket') {
      this.#downlink.removePeer(name);
      if (this.mixer.hasSpeaker(name)) this.mixer.cutSpeaker(name);
      else this.mixer.addSpeaker(name, this.speakerOf(name));
    } else if (!this.#downlink.hears(name)) this.mixer.removeSpeaker(name);
    this.mixer.setPaced(name, kind === 'websocket');
    // An uplink passes the mute with each packet.
    const isHeldBack = kind === 'webrtc' && isMuted;
    this.mixer.setMuted(name, isHeldBack, performance.now(), kind === 'websocket');
    this.#share(after, false);
  }

  /** Suspends a peer whose connection is lost, without an announcement. Its time is counted only while its media flows. */
  suspend(peer: Peer): void {
    if (!this.#members.isCurrent(peer)) return;
    this.#members.suspend(peer);
    if (this.#members.isConnectedElsewhere(peer)) peer.replace();
    else this.#share(peer, true);
  }

  /** Ends the suspension of a peer. */
  resume(peer: Peer): void {
    if (!this.#members.isCurrent(peer)) return;
    this.#members.resume(peer);
    this.#share(peer, false);
  }

  /** Applies `isMuted` of a peer if it has changed. */
  mutedChanged(peer: Peer): void {
    if (!this.#members.isCurrent(peer)) return;
    // An uplink passes the mute with each packet; a muted browser sends none.
    if (peer.kind === 'webrtc') this.#muteBrowser(peer);
    this.#members.mutedChanged(peer);
    this.#link.setMuted(peer.name, peer.isMuted);
  }

  /** Applies a possible change of a peer's `hasMediaPath`. */
  mediaPathChanged(peer: Peer): void {
    if (this.#members.isCurrent(peer)) this.#members.updateMetering(peer);
  }

  /**
   * Removes a peer and its producers, and announces that the peer has left, unless it is in the room over another
   * connection. Called by the peer as it closes.
   */
  leave(peer: Peer, reason: LeaveReason): void {
    const { name } = peer;
    const isCurrent = this.#members.isCurrent(peer);
    this.producers.removePeer(peer);
    this.#updateRoute();
    if (isCurrent) {
      if (!this.#downlink.hears(name)) this.mixer.removeSpeaker(name);
      this.#link.removePeer(name, reason);
    }
    this.#members.leave(peer, reason);
    // Only a peer in the room holds back producers of other nodes; one whose join failed never was.
    if (isCurrent) this.producers.hearRemote(name);
  }

  /** Resolves when this node receives the audio of all other nodes, or after a time limit. */
  whenAllHeard(): Promise<void> {
    return this.#link.whenAllHeard();
  }

  /** Relays a message of an unknown format that a peer of this node sends. */
  relayMessage(peer: string, message: Buffer): void {
    this.relay.send(peer, message);
    this.#echo?.later(() => this.relay.receive(ECHO_PEER, message));
  }

  /**
   * Connects a browser's producer to all other peers. Resolves when the WebSocket peers and other nodes will not miss a packet, or
   * after a time limit for those nodes; browsers get their consumers later.
   * Does nothing if another connection has replaced the peer.
   * @throws {PartylineError} `media_lost`
   */
  async addBrowserProducer(peer: Peer, id: string, events: RateEvents): Promise<void> {
    if (!this.#members.isCurrentOrPrepared(peer)) return;
    if (!(await this.producers.open(peer, id, events))) return;
    // Another way of the peer may have replaced this one meanwhile.
    if (this.#members.isCurrent(peer)) this.#muteBrowser(peer);
    if (this.#members.isCurrentOrPrepared(peer)) await this.addProducer(peer, id);
    else this.#downlink.remove(id);
  }

  /**
   * Connects a producer to the browsers and the other nodes. Resolves when the nodes will not miss a packet, or after a time
   * limit; it does not wait for the browsers, which get their consumers later.
   */
  async addProducer(peer: Peer, id: string): Promise<void> {
    if (!this.#members.isCurrentOrPrepared(peer)) return;
    this.producers.add({ id, peer: peer.name, owner: peer });
    await this.#link.addProducer(peer.name, id);
  }

  /** Returns when the last packet of a browser's producer came, ms; undefined before the first. */
  lastPacketAtMs(producerId: string): number | undefined {
    return this.#downlink.lastPacketAtMs(producerId);
  }

  /** Queues work that may wait, in turn with that of other rooms. A rejection is given to `onFault` of the `Slices`. */
  doLater(work: () => Promise<void>): void {
    this.#slices.add(this.producers, work);
  }

  /**
   * Sends a peer the active speakers, which are otherwise reported only on changes.
   * @param evenIfNobody true to send an empty list too, to a peer that may have an outdated one
   */
  tellSpeakersTo(peer: Peer, evenIfNobody = false): void {
    const peers = this.#talking();
    if (peers.length > 0 || evenIfNobody) peer.notify({ type: 'speaking', peers });
  }

  close(): void {
    this.#speaking.close();
    this.#echo?.close();
    this.mixer.close();
    this.media.close();
    // Not awaited: closing the cluster waits for its links.
    void this.#link.close();
  }

  /** Handles the death of the media worker: media is opened again on another one. Audio between WebSocket peers does not need one. */
  #mediaLost(): void {
    this.producers.clear();
    this.#link.setRouter(undefined);
    this.#updateRoute();
    // Ends the changes to WebRTC that are in progress: the old way of these peers stays in use.
    for (const peer of this.#members.prepared) if (peer.kind === 'webrtc') peer.mediaRestarted();
  }

  /** Reopens media on the router of another media worker. */
  #mediaReplaced(router: RoomRouter): void {
    this.#link.setRouter(router);
    this.#updateRoute();
    this.#echo?.reset();
    for (const peer of this.#members.hereAndPrepared) peer.mediaRestarted();
  }

  #updateRoute(): void {
    const isHeard = this.producers.hasBrowsers || this.#link.isShared;
    this.route.isOpen = isHeard && this.media.isAvailable;
  }

  get #isEcho(): boolean {
    return isEchoRoom(this.key.name);
  }

  #openEcho(peer: string): Echo {
    const parts = {
      mixer: this.mixer,
      clock: this.clock,
      router: () => this.media.router,
      route: this.route,
      uplinkTimings: this.uplinkTimings,
      onProducer: (id: string) => this.producers.add({ id, peer: ECHO_PEER, owner: undefined }),
      log: this.log,
    };
    return new Echo(parts, this.speakerOf(peer));
  }

  /** Returns the peers that talk now, with their levels where known. */
  #talking(): SpeakingPeer[] {
    const heard: SpeakingPeer[] = this.mixer.speaking().filter(({ peer }) => peer !== ECHO_PEER);
    for (const peer of this.relay.talking()) {
      if (!heard.some((other) => other.peer === peer)) heard.push({ peer });
    }
    return heard;
  }

  /** Tells the mixer whether another node withholds the packets of a peer (a muted browser). A WebSocket peer begins a new stream after a mute. */
  #updateMutedElsewhere(name: string): void {
    const state = this.#members.stateElsewhere(name);
    if (!state) return;
    const { kind, muted } = state;
    const isHeldBack = kind === 'webrtc' && muted;
    this.mixer.setMutedElsewhere(name, isHeldBack, performance.now(), kind === 'websocket');
  }

  #muteBrowser({ name, isMuted }: Peer): void {
    this.mixer.setMuted(name, isMuted, performance.now());
  }

  /** Shares the state of a peer of this node with the other nodes. @param away true if its connection is lost */
  #share({ name, kind, isMuted }: Peer, away: boolean): void {
    this.#link.setPeer(name, kind, randomUUID(), away, isMuted);
  }
}
