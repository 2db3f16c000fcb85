import type { PlacedPeer } from '../cluster/room-state.ts';
import type { LeaveReason, PeerDescription } from '../protocol/messages.ts';
import type { Roster } from './roster.ts';

/** Changes of the roster that follow from a node's state. */
export type RosterChanges = {
  joined: PeerDescription[];
  left: { peer: PeerDescription; reason: LeaveReason }[];
};

/**
 * Peers of a room on other nodes. A kept place of a peer becomes void once the peer has a connection elsewhere. Pure.
 */
export class RemotePeers {
  readonly #roster: Roster;
  /** Node → name → peer. */
  readonly #peers = new Map<string, Map<string, PlacedPeer>>();
  /** Kept places whose peers have come back elsewhere: place → the node that keeps it. */
  readonly #voidPlaces = new Map<string, string>();

  constructor(roster: Roster) {
    this.#roster = roster;
  }

  /**
   * Sets all peers of the room on a node; none if the node has left or died. A kept place of a peer that has a connection already
   * is void: its node announced it late.
   * @param isConnectedHere returns whether a peer has a connection to this node
   * @param reasons reasons for which peers have left, as far as the node has sent them
   */
  update(
    node: string,
    peers: PlacedPeer[],
    reasons: ReadonlyMap<string, LeaveReason>,
    isConnectedHere: (name: string) => boolean = () => false,
  ): RosterChanges {
    this.#forgetVoidPlaces(node, peers);
    for (const { peer: name, place, away } of peers) {
      const isElsewhere = () => isConnectedHere(name) || this.#isConnectedBeside(name, node);
      if (away && isElsewhere()) this.#voidPlaces.set(place, node);
    }
    const before = this.#peers.get(node) ?? new Map<string, PlacedPeer>();
    const isGood = ({ place, away }: PlacedPeer) => !(away && this.#voidPlaces.has(place));
    const now = new Map(peers.filter(isGood).map((peer) => [peer.peer, peer]));
    if (now.size > 0) this.#peers.set(node, now);
    else this.#peers.delete(node);
    const changes: RosterChanges = { joined: [], left: [] };
    for (const { peer: name, kind, away, muted } of now.values()) {
      const joined = this.#roster.enter(name, kind, node, muted);
      if (joined) changes.joined.push(joined);
      if (!away) this.voidKeptPlaces(name, node);
    }
    for (const name of before.keys()) {
      if (now.has(name)) continue;
      const peer = this.#roster.leave(name, node);
      if (peer) changes.left.push({ peer, reason: reasons.get(name) ?? 'closed' });
    }
    return changes;
  }

  /** Returns whether a peer has a connection to another node. */
  isConnected(name: string): boolean {
    return [...this.#peers.values()].some((peers) => peers.get(name)?.away === false);
  }

  /** Returns whether a peer has a connection to a node other than `node`. */
  #isConnectedBeside(name: string, node: string): boolean {
    return [...this.#peers].some(
      ([other, peers]) => other !== node && peers.get(name)?.away === false,
    );
  }

  /** Notes that a peer has a connection to `node` or this one, so that kept places elsewhere are void. */
  voidKeptPlaces(name: string, node?: string): void {
    for (const [other, peers] of this.#peers) {
      const place = peers.get(name);
      if (other === node || !place?.away) continue;
      this.#voidPlaces.set(place.place, other);
      peers.delete(name);
      this.#roster.leave(name, other);
    }
  }

  #forgetVoidPlaces(node: string, peers: PlacedPeer[]): void {
    const places = new Set(peers.map(({ place }) => place));
    for (const [place, keeper] of this.#voidPlaces) {
      if (keeper === node && !places.has(place)) this.#voidPlaces.delete(place);
    }
  }
}
