import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { familyOf, type IpFamily, type ListenAddress } from '../../config/listen-addresses.ts';
import { addressFor, type NodePipe, type PipeSettings } from '../media/node-pipe.ts';
import type { RoomRouter } from '../media/room-router.ts';
import type { LeaveReason, PeerKind } from '../protocol/messages.ts';
import { ownedKeysKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { counters } from '../counters.ts';
import type { LogOnceASecond } from '../log-once-a-second.ts';
import { FORMAT } from '../store/state-format.ts';
import { limitTime } from '../time-limit.ts';
import type { Relays } from './relay/relays.ts';
import { RemoteNode } from './remote-node.ts';
import type { RoomEnd } from './room-end.ts';
import { parseRoomState, type PlacedPeer, type RoomState } from './room-state.ts';
import type { Sealer } from './sealer.ts';

/** Events of the other nodes in a room. */
export type RoomLinkEvents = {
  /**
   * Called with all peers of the room on a node; none if the node has left the room or died.
   * @param reasons reasons for which peers have left
   */
  onPeers: (node: string, peers: PlacedPeer[], reasons: ReadonlyMap<string, LeaveReason>) => void;
  /**
   * Called when a peer on another node produces audio, which a producer of this node's router passes on.
   * @param isRunning returns true if its first packets may be from the middle of a stream
   */
  onProducer: (peer: string, producerId: string, isRunning: () => boolean) => Promise<void>;
  onProducerClosed: (producerId: string) => void;
  /** Called when {@link RoomLink.isShared} may have changed. */
  onShared: () => void;
  /** Called when a peer on another node has sent a message of an unknown format. */
  onRelayed: (peer: string, message: Buffer) => void;
};

export type RoomLinkParts = {
  accountId: number;
  /** Key of the hash in Redis that holds each node's state, and of the channel that tells of changes. */
  key: string;
  node: string;
  redis: Redis;
  sealer: Sealer;
  pipes: PipeSettings;
  relays: Relays;
  nextVersion: () => number;
  /** Called when the room is on another node with which this one has no address family in common. */
  onUnreachable: (node: string, families: readonly IpFamily[]) => void;
  /** Called at intervals for each node. `isSilent`: true if the node receives nothing of what is sent to it. */
  onSilent: (node: string, isSilent: boolean) => void;
  log: FastifyBaseLogger;
  /** Log of what all rooms of the process may report at the same time. */
  sharedLog: LogOnceASecond;
  timings: Timings['pipes'];
};

/**
 * One room on all nodes. Each node writes its state (its peers, its ends of the pipes) and reads those of
 * the others; no node owns the room. A state is complete, so that a missed one does no harm once the next is read.
 */
export class RoomLink implements RoomEnd {
  readonly node: string;
  readonly timings: Timings['pipes'];
  readonly #parts: RoomLinkParts;
  readonly #events: RoomLinkEvents;
  readonly #onErased: () => void;
  readonly #peers = new Map<string, PlacedPeer>();
  /** Peers that have left since the last write, and why. */
  readonly #left = new Map<string, LeaveReason>();
  readonly producers = new Map<string, string>();
  /** Producers that have been announced to all nodes that were there, and may send. */
  readonly #running = new Set<string>();
  readonly #remotes = new Map<string, RemoteNode>();
  /** The version that was read last of each node, also of one that has left. */
  readonly #versions = new Map<string, number>();
  /** Resolvers that wait until all nodes receive a producer of this one, or this node receives all. */
  readonly #waiting = new Set<() => void>();
  #router: RoomRouter | undefined;
  #unsubscribe: (() => void) | undefined;
  #isWritten = true;
  #writing: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  /** Delay of the next retry. */
  #retryAfterMs: number;
  #absence: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Another link of the same room on this node writes the state. */
  #isAbandoned = false;

  /** @param onErased called when the link has been closed, nobody has a place in it, and the other nodes have been told */
  constructor(parts: RoomLinkParts, events: RoomLinkEvents, onErased: () => void) {
    this.#parts = parts;
    this.#events = events;
    this.#onErased = onErased;
    this.node = parts.node;
    this.timings = parts.timings;
    this.#retryAfterMs = parts.timings.retryAfterMs;
  }

  /** Resolves when the peers on other nodes are known; if Redis is disconnected, at once. */
  async open(): Promise<void> {
    this.#unsubscribe = await this.#parts.redis.subscribe(this.#parts.key, {
      onMessage: (message) => this.#receive(message),
      onGap: () => {
        this.rewrite();
        this.#tryToRead();
        this.#forgetAbsentLater();
      },
    });
    try {
      await this.#read();
    } catch (fault) {
      this.warn({ err: fault }, 'room not shared until redis is back');
    }
  }

  /** True while there are peers on other nodes, which may hear this node's audio. */
  get isShared(): boolean {
    return this.otherNodes > 0;
  }

  /** Number of other nodes that have peers in the room. */
  get otherNodes(): number {
    return this.#remotes.size;
  }

  /** The nodes to which the room has a pipe that is connected. */
  get pipedTo(): string[] {
    return [...this.#remotes].filter(([, { isConnected }]) => isConnected).map(([node]) => node);
  }

  /** Other nodes that have the room, to which no pipe can lead. */
  get unreachable(): string[] {
    return [...this.#remotes].filter(([, { isReachable }]) => !isReachable).map(([node]) => node);
  }

  /** Other nodes from which nothing comes back of what this one sends them. */
  get silentNodes(): string[] {
    return [...this.#remotes].filter(([, { isSilent }]) => isSilent).map(([node]) => node);
  }

  /** Number of pipes of which this node's end is open. */
  get openPipes(): number {
    return [...this.#remotes.values()].filter(({ hasPipe }) => hasPipe).length;
  }

  get isOpen(): boolean {
    return this.#router !== undefined && this.#peers.size > 0 && !this.#isClosed;
  }

  /** The room's router; undefined while there is none. */
  setRouter(router: RoomRouter | undefined): void {
    if (this.#router) for (const remote of this.#remotes.values()) remote.routerLost();
    if (!router) {
      this.producers.clear();
      this.#running.clear();
    }
    this.#router = router;
    this.#converge();
  }

  setPeer(name: string, kind: PeerKind, place: string, away: boolean, muted = false): void {
    this.#peers.set(name, { peer: name, kind, place, away, muted });
    this.#left.delete(name);
    this.changed();
    this.#converge();
  }

  /** A peer that is in the room here is muted, or is no longer. */
  setMuted(name: string, muted: boolean): void {
    const peer = this.#peers.get(name);
    if (!peer || peer.muted === muted) return;
    this.#peers.set(name, { ...peer, muted });
    this.changed();
  }

  removePeer(name: string, reason: LeaveReason): void {
    this.#peers.delete(name);
    this.#left.set(name, reason);
    this.changed();
    this.#converge();
  }

  /** Sends the audio of a producer of this node to all other nodes; resolves when they receive it, or after a time limit. */
  async addProducer(peer: string, id: string): Promise<void> {
    this.producers.set(id, peer);
    if (this.#remotes.size > 0) {
      this.#converge();
      await this.#until((remote) => remote.hears(id));
    }
    if (!this.producers.has(id)) return;
    this.#running.add(id);
    // A node that is late hears it from the middle on.
    if ([...this.#remotes.values()].some((remote) => !remote.hears(id))) this.changed();
  }

  isRunning(producerId: string): boolean {
    return this.#running.has(producerId);
  }

  /** Resolves when the audio of all other nodes is received here, or after a time limit. */
  whenAllHeard(): Promise<void> {
    return this.#until((remote) => remote.isHeard);
  }

  removeProducer(id: string): void {
    this.#running.delete(id);
    if (this.producers.delete(id)) this.#converge();
  }

  /** Sends a message of an unknown format to all other nodes that have the room. */
  relay(peer: string, message: Buffer): void {
    const { accountId, key, relays } = this.#parts;
    const targets = [...this.#remotes].flatMap(([node, { state }]) => {
      const address = relays.reachable(state.relays ?? (state.relay ? [state.relay] : []));
      return address ? { node, address } : [];
    });
    relays.send(accountId, { room: key, peer, message }, targets);
  }

  /** A message of an unknown format has come from another node. */
  relayed(peer: string, message: Buffer): void {
    if (!this.#isClosed) this.#events.onRelayed(peer, message);
  }

  addressFor(families: readonly IpFamily[] | undefined): ListenAddress | undefined {
    return addressFor(this.#parts.pipes, families);
  }

  async openPipe(address: ListenAddress): Promise<NodePipe> {
    if (!this.#router) throw new Error('the room has no router');
    return this.#router.openNodePipe(address, this.#parts.pipes.portRange);
  }

  async heard(peer: string, producerId: string, isRunning: () => boolean): Promise<void> {
    await this.#events.onProducer(peer, producerId, isRunning);
  }

  unheard(producerId: string): void {
    this.#events.onProducerClosed(producerId);
  }

  warn(fields: object, message: string): void {
    this.#parts.sharedLog.warn(this.#parts.log, fields, message);
  }

  noteSilent(node: string, isSilent: boolean): void {
    this.#parts.onSilent(node, isSilent);
  }

  /** Schedules a write of this node's state, which includes later changes of the same turn. */
  changed(): void {
    this.#wake();
    if (this.#isAbandoned) return;
    this.#isWritten = false;
    clearTimeout(this.#retry);
    this.#writing ??= this.#write();
  }

  /** Writes the state again, because the last one may have been lost. */
  rewrite(): void {
    if (this.#peers.size > 0) this.changed();
  }

  /** Writes a state at once that waits for a retry, because Redis answers again. */
  retryNow(): void {
    this.#retryAfterMs = this.timings.retryAfterMs;
    if (!this.#isWritten) this.changed();
  }

  nodeDied(node: string): void {
    this.#forget(node);
  }

  /** True while peers have places here, with a connection or without. */
  get keepsPlaces(): boolean {
    return this.#peers.size > 0;
  }

  /**
   * Closes the pipes; resolves when the other nodes have been told, or cannot be told now. Peers that are still here keep
   * their places for as long as this node counts as living.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return this.#writing;
    this.#isClosed = true;
    if (this.keepsPlaces) this.changed();
    this.#unsubscribe?.();
    clearTimeout(this.#absence);
    for (const remote of this.#remotes.values()) remote.close();
    this.#remotes.clear();
    this.#wake();
    // The write in progress logs its own fault.
    if (this.#writing) await this.#writing;
    else if (this.#isWritten) this.#endWithoutPlaces();
  }

  /** Ends a closed link, unless peers that keep their places may still leave it. */
  #endWithoutPlaces(): void {
    if (this.keepsPlaces) return;
    this.abandon();
    this.#onErased();
  }

  /** Stops writing for good, even if a change is unwritten. */
  abandon(): void {
    this.#isClosed = true;
    this.#isAbandoned = true;
    this.#isWritten = true;
    this.#unsubscribe?.();
    clearTimeout(this.#retry);
    clearTimeout(this.#absence);
  }

  /** One write at a time; what changes meanwhile goes with the next. */
  async #write(): Promise<void> {
    // All that changes in this turn of the event loop is one change.
    await new Promise(setImmediate);
    while (!this.#isWritten) {
      this.#isWritten = true;
      try {
        await this.#writeOnce();
        this.#retryAfterMs = this.timings.retryAfterMs;
      } catch (fault) {
        if (this.#isAbandoned) break;
        this.warn({ err: fault }, 'room state not written; retrying');
        this.#isWritten = false;
        this.#retryLater();
        break;
      }
    }
    this.#writing = undefined;
    if (this.#isWritten && this.#isClosed) this.#endWithoutPlaces();
  }

  #retryLater(): void {
    this.#retry = setTimeout(() => this.changed(), this.#retryAfterMs);
    this.#retryAfterMs = Math.min(2 * this.#retryAfterMs, this.timings.longestRetryMs);
  }

  async #writeOnce(): Promise<void> {
    const { key, node, redis, relays, sealer, nextVersion, pipes } = this.#parts;
    const ends = [...this.#remotes].flatMap(([other, remote]) => {
      const end = remote.describeEnd();
      return end ? [[other, end] as const] : [];
    });
    const left = [...this.#left];
    this.#left.clear();
    const state: RoomState = {
      format: FORMAT,
      version: nextVersion(),
      departed: this.#isClosed,
      peers: [...this.#peers.values()],
      left: left.map(([peer, reason]) => ({ peer, reason })),
      pipes: Object.fromEntries(ends),
      families: pipes.addresses.map(familyOf),
      relays: relays.addresses,
      ...(relays.addresses[0] && { relay: relays.addresses[0] }),
    };
    const sealed = sealer.seal(JSON.stringify(state), placeOf(key, node));
    const words = [node, sealed, redis.channelOf(key)];
    const options = { keys: [key, ownedKeysKey(node)], arguments: words };
    try {
      await redis.run((client) =>
        state.peers.length > 0 ? client.writeRoomState(options) : client.eraseRoomState(options),
      );
    } catch (fault) {
      this.#tellAgain(left);
      throw fault;
    }
  }

  /** Reasons of leaves that may not have been read; they no longer apply to peers that have come back or left again since. */
  #tellAgain(left: [string, LeaveReason][]): void {
    for (const [peer, reason] of left) {
      if (!this.#peers.has(peer) && !this.#left.has(peer)) this.#left.set(peer, reason);
    }
  }

  #tryToRead(): void {
    this.#read().catch((fault: unknown) => {
      this.warn({ err: fault }, 'room states not read');
    });
  }

  /**
   * Forgets nodes that have left the room while messages were lost: nothing in Redis tells that. Not at once, because the nodes write
   * their states again after a Redis that lost its data has come back.
   */
  #forgetAbsentLater(): void {
    clearTimeout(this.#absence);
    if (this.#isClosed) return;
    this.#absence = setTimeout(() => {
      this.#forgetAbsent().catch((fault: unknown) => {
        this.warn({ err: fault }, 'room states not read; retrying');
        this.#forgetAbsentLater();
      });
    }, this.timings.absentAfterMs);
  }

  async #forgetAbsent(): Promise<void> {
    // A node that writes its state after this question may be missing in the answer.
    const known = [...this.#remotes.keys()].map(
      (node) => [node, this.#versions.get(node)] as const,
    );
    const states = await this.#read();
    if (this.#isClosed) return;
    for (const [node, version] of known) {
      if (!(node in states) && this.#versions.get(node) === version) this.#forget(node);
    }
  }

  /** @returns the states of all nodes that have the room, sealed */
  async #read(): Promise<Record<string, string>> {
    const { key, redis } = this.#parts;
    const states = await redis.run((client) => client.hGetAll(key));
    for (const [node, sealed] of Object.entries(states)) this.#apply(node, sealed);
    return states;
  }

  #receive(message: string): void {
    const space = message.indexOf(' ');
    this.#apply(message.slice(0, space), message.slice(space + 1));
  }

  #apply(node: string, sealed: string): void {
    if (node === this.node || this.#isClosed) return;
    let state: RoomState | undefined;
    try {
      state = parseRoomState(this.#parts.sealer.unseal(sealed, placeOf(this.#parts.key, node)));
    } catch (fault) {
      counters.sealFaults += 1;
      this.#parts.log.error({ err: fault, node }, 'room state rejected: bad seal or format');
      return;
    }
    if (!state || state.version <= (this.#versions.get(node) ?? 0)) return;
    this.#versions.set(node, state.version);
    const remote = this.#remotes.get(node);
    const reasons = state.left.map(({ peer, reason }) => [peer, reason] as const);
    this.#events.onPeers(node, state.peers, new Map(reasons));
    if (state.peers.length === 0 || state.departed) this.#unpipe(node);
    else if (remote) remote.state = state;
    else this.#pipe(node, state);
    this.#wake();
  }

  #forget(node: string): void {
    this.#unpipe(node);
    this.#events.onPeers(node, [], new Map());
    this.#wake();
  }

  #pipe(node: string, state: RoomState): void {
    const remote = new RemoteNode(node, state, this);
    this.#remotes.set(node, remote);
    if (!remote.isReachable) this.#parts.onUnreachable(node, state.families ?? []);
    this.#events.onShared();
  }

  #unpipe(node: string): void {
    this.#remotes.get(node)?.close();
    this.#remotes.delete(node);
    this.#events.onShared();
  }

  #converge(): void {
    for (const remote of this.#remotes.values()) remote.converge();
  }

  /** Resolves when a condition holds for all other nodes that can be reached, or after a time limit. */
  #until(isSo: (remote: RemoteNode) => boolean): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        endLimit();
        this.#waiting.delete(look);
        resolve();
      };
      const look = () => {
        if ([...this.#remotes.values()].every((each) => !each.isReachable || isSo(each))) done();
      };
      const endLimit = limitTime(this.timings.readyWithinMs, done);
      this.#waiting.add(look);
      look();
    });
  }

  #wake(): void {
    for (const look of this.#waiting) look();
  }
}

/** Context of a seal: the state of a node in one room is valid nowhere else. */
const placeOf = (key: string, node: string) => `${key} ${node}`;
