import type { PlacedPeer } from '../cluster/room-state.ts';
import type {
  LeaveReason,
  PeerDescription,
  PeerKind,
  ServerMessage,
} from '../protocol/messages.ts';
import { ECHO_ROOM } from '../protocol/names.ts';
import { isEchoRoom } from './echo.ts';
import type { AudioStats, Peer } from './peer.ts';
import { RemotePeers } from './remote-peers.ts';
import type { RoomParts, RoomKey } from './room-parts.ts';
import { Roster } from './roster.ts';

export type MembersParts = Pick<
  RoomParts,
  'meterPeer' | 'meterSize' | 'onJoined' | 'onLeft' | 'slices'
>;

/** A peer of this node, as an operator sees it. */
export type PeerState = {
  peer: string;
  kind: PeerKind;
  /** True if the peer's connection is lost and its place is kept. */
  isAway: boolean;
  /** True while the room names it in `speaking`. */
  isTalking: boolean;
  /** dBov; undefined while it does not talk, or talks in an unknown format. */
  levelDbov: number | undefined;
  audioStats: AudioStats | undefined;
};

/** Peers of a room: those of this node, whose time is counted, and the names of those of other nodes. */
export class Members {
  readonly #key: RoomKey;
  readonly #parts: MembersParts;
  /** Called with the name of a peer that has left all nodes. */
  readonly #onGone: (name: string) => void;
  readonly #isEcho: boolean;
  readonly #roster = new Roster(
    (peer, muted) => this.broadcast({ type: 'peer_changed', peer, muted }, peer),
    (changed) => this.broadcast({ type: 'peer_changed', ...changed }, changed.peer),
  );
  readonly #remote = new RemotePeers(this.#roster);
  /** Peers of this node, by name. */
  readonly #peers = new Map<string, Peer>();
  /** Prepared ways of peers of this node, which are about to take over. */
  readonly #prepared = new Set<Peer>();
  /** Peers of this node whose connections are lost, and whose places are kept. */
  readonly #suspended = new Set<Peer>();
  readonly #stopMetering = new Map<Peer, () => void>();

  constructor(key: RoomKey, parts: MembersParts, onGone: (name: string) => void) {
    this.#key = key;
    this.#parts = parts;
    this.#onGone = onGone;
    this.#isEcho = isEchoRoom(key.name);
  }

  /** Returns all peers on all nodes except `self`. */
  others(self: Peer): PeerDescription[] {
    return this.#roster.others(self.name);
  }

  /** Returns whether a peer is in the room, on any node. */
  has(name: string): boolean {
    return this.#roster.has(name);
  }

  /** Returns whether a peer is in the room on this node. */
  isHere(name: string): boolean {
    return this.#peers.has(name);
  }

  /** Returns true if this peer holds its name in the room on this node; false if another has replaced it. */
  isCurrent(peer: Peer): boolean {
    return this.#peers.get(peer.name) === peer;
  }

  /** Returns true if this peer holds its name in the room on this node, or is about to. */
  isCurrentOrPrepared(peer: Peer): boolean {
    return this.isCurrent(peer) || this.#prepared.has(peer);
  }

  /** Returns whether a peer has a connection to another node. */
  isConnectedElsewhere({ name }: Peer): boolean {
    return this.#remote.isConnected(name);
  }

  /** Returns the state of a peer that is in the room on other nodes only; undefined for all others. */
  stateElsewhere(name: string): { kind: PeerKind; muted: boolean } | undefined {
    return this.isHere(name) ? undefined : this.#roster.stateOf(name);
  }

  /** Prepared ways of peers of this node. */
  get prepared(): Peer[] {
    return [...this.#prepared];
  }

  /** Peers of this node, and those that are prepared. */
  get hereAndPrepared(): Peer[] {
    return [...this.#peers.values(), ...this.#prepared];
  }

  /** Returns the kind of a peer of this node; undefined if it is not here. */
  kindHere(name: string): PeerKind | undefined {
    return this.#peers.get(name)?.kind;
  }

  /** Peers of this node. */
  get here(): Peer[] {
    return [...this.#peers.values()];
  }

  /** Returns the peers of this node with their statistics. @param levels levels of talking peers, dBov, by name; undefined where unknown */
  describe(levels: ReadonlyMap<string, number | undefined>): PeerState[] {
    return this.here.map((peer) => ({
      peer: peer.name,
      kind: peer.kind,
      isAway: this.#suspended.has(peer),
      isTalking: levels.has(peer.name),
      levelDbov: levels.get(peer.name),
      audioStats: peer.audioStats,
    }));
  }

  /** Returns the speaker number of a peer, which is in the header of forwarded frames. */
  speakerOf(name: string): number {
    return this.#roster.speakerOf(name);
  }

  /** Adds a peer of this node, and announces it to the others if it is new. */
  enter(peer: Peer): void {
    const { name, kind } = peer;
    this.#peers.set(name, peer);
    this.updateMetering(peer);
    this.#joined(this.#roster.enter(name, kind, peer, peer.isMuted));
    this.#remote.voidKeptPlaces(name);
    if (!this.#isEcho) this.#parts.onJoined(this.#key.accountId, this.#key.name, name, kind);
  }

  /** Prepares another way of a peer that is in the room; {@link change} makes it the peer. */
  prepare(peer: Peer): void {
    this.#prepared.add(peer);
  }

  /**
   * Replaces a peer by its prepared way; the others see no leave.
   * @returns false if `before` is no longer the peer
   */
  change(before: Peer, after: Peer): boolean {
    const { name, kind, isMuted } = after;
    this.#prepared.delete(after);
    if (!this.isCurrent(before)) return false;
    this.#stopMetering.get(before)?.();
    this.#stopMetering.delete(before);
    this.#peers.set(name, after);
    this.updateMetering(after);
    this.#roster.handOver(name, before, after, { kind, muted: isMuted });
    if (!this.#isEcho) this.#parts.onJoined(this.#key.accountId, this.#key.name, name, kind);
    return true;
  }

  /** Keeps the place of a peer whose connection is lost, without an announcement. */
  suspend(peer: Peer): void {
    this.#suspended.add(peer);
    this.updateMetering(peer);
  }

  /** Ends the suspension of a peer that is back. */
  resume(peer: Peer): void {
    this.#suspended.delete(peer);
    this.updateMetering(peer);
  }

  /** Announces a change of a peer's `isMuted`. */
  mutedChanged(peer: Peer): void {
    this.#roster.setMuted(peer.name, peer, peer.isMuted);
  }

  /** Removes a peer of this node, and announces that unless it is in the room in another way. */
  leave(peer: Peer, reason: LeaveReason): void {
    const { name } = peer;
    this.#stopMetering.get(peer)?.();
    this.#stopMetering.delete(peer);
    this.#suspended.delete(peer);
    this.#prepared.delete(peer);
    if (this.isCurrent(peer)) {
      this.#peers.delete(name);
      const { accountId, name: room } = this.#key;
      const isElsewhere = this.isConnectedElsewhere(peer);
      if (!this.#isEcho) this.#parts.onLeft(accountId, room, name, reason, isElsewhere);
    }
    this.#left(this.#roster.leave(name, peer), reason);
  }

  /**
   * Sets all peers that another node has in the room; none if the node has left or died.
   * @param reasons reasons for which peers have left, as far as the node has sent them
   */
  updateRemote(node: string, peers: PlacedPeer[], reasons: ReadonlyMap<string, LeaveReason>): void {
    const isConnectedHere = (name: string) => {
      const peer = this.#peers.get(name);
      return peer !== undefined && !this.#suspended.has(peer);
    };
    const { joined, left } = this.#remote.update(node, peers, reasons, isConnectedHere);
    for (const peer of joined) this.#joined(peer);
    for (const { peer, reason } of left) this.#left(peer, reason);
    for (const peer of this.#suspended) {
      if (this.isConnectedElsewhere(peer)) peer.replace();
    }
  }

  /** Starts or stops counting the time of a peer, which counts while it has a connection, or while its media flows without one. */
  updateMetering(peer: Peer): void {
    const isConnected = !peer.isMediaOnly && !this.#suspended.has(peer);
    const isMetered = isConnected || peer.hasMediaPath;
    const stop = this.#stopMetering.get(peer);
    if (isMetered === (stop !== undefined)) return;
    stop?.();
    if (stop) this.#stopMetering.delete(peer);
    if (isMetered) {
      this.#stopMetering.set(peer, this.#startMetering(peer.kind));
      this.#noteSize();
    }
  }

  /** Sends a message to all peers of this node except `except`, in slices: in a large room that many enter at once this is most of the work. */
  broadcast(message: ServerMessage, except?: string): void {
    const text = JSON.stringify(message);
    for (const peer of this.#peers.values()) {
      if (peer.name === except || !peer.notifyLater(text)) continue;
      this.#parts.slices.add(this, () => peer.flush());
    }
  }

  #joined(peer: PeerDescription | undefined): void {
    if (!peer) return;
    this.#noteSize();
    this.broadcast({ type: 'peer_joined', ...peer }, peer.peer);
  }

  #left(peer: PeerDescription | undefined, reason: LeaveReason): void {
    if (!peer) return;
    const { peer: name, speaker } = peer;
    this.#noteSize();
    this.#onGone(name);
    this.broadcast({ type: 'peer_left', peer: name, speaker, reason }, name);
  }

  #startMetering(kind: PeerKind): () => void {
    return this.#parts.meterPeer(this.#key.accountId, this.#meteredName, kind);
  }

  #noteSize(): void {
    this.#parts.meterSize(this.#key.accountId, this.#meteredName, this.#roster.size);
  }

  /** Name under which minutes are counted: all echo rooms are one. */
  get #meteredName(): string {
    return this.#isEcho ? ECHO_ROOM : this.#key.name;
  }
}
