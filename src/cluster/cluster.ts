import { randomBytes } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import { familyOf, type IpFamily } from '../../config/listen-addresses.ts';
import type { Timings } from '../../config/timings.ts';
import { LogOnceASecond } from '../log-once-a-second.ts';
import type { PipeSettings } from '../media/node-pipe.ts';
import {
  accountOfRoomStateKey,
  ownedKeysKey,
  roomStateKey,
  SHARED_CLUSTER_KEY,
} from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { claimFormat } from '../store/state-format.ts';
import { Bus } from './bus.ts';
import { checkClusterKey, forgetClusterKey } from './key-check.ts';
import { Nodes } from './nodes.ts';
import { ClusterRpc } from './cluster-rpc.ts';
import { Relays } from './relay/relays.ts';
import { RoomLink, type RoomLinkEvents } from './room-link.ts';
import { Sealer } from './sealer.ts';

export type ClusterSettings = {
  /** Key shared by all nodes. Empty: the key is stored in Redis, so that everybody who can read Redis can act as a node. */
  clusterKey: string;
  pipes: PipeSettings;
};

const NO_COMMON_FAMILY =
  'rooms not heard from node, nor there from here: no address family in common; PIPE_LISTEN_IP of both must have one';

const SILENT =
  'nothing comes back from node to which audio is sent: UDP ports PIPE_PORT_MIN to PIPE_PORT_MAX of both nodes must be reachable at the addresses that they announce (PIPE_LISTEN_IP, PIPE_ANNOUNCED_ADDRESS)';

/** For a link that only leaves a room. */
const NO_EVENTS: RoomLinkEvents = {
  onPeers: () => {},
  onProducer: async () => {},
  onProducerClosed: () => {},
  onShared: () => {},
  onRelayed: () => {},
};

/** This node among the others that share its Redis: which of them live, and in which rooms they have peers. */
export class Cluster {
  readonly bus: Bus;
  readonly rpc: ClusterRpc;
  /** Seals what only nodes may read or write. */
  readonly sealer: Sealer;
  readonly #nodes: Nodes;
  readonly #relays: Relays;
  readonly #redis: Redis;
  readonly #settings: ClusterSettings;
  readonly #log: FastifyBaseLogger;
  readonly #timings: Timings;
  readonly #sharedLog = new LogOnceASecond();
  /** Links by room key; closed ones stay until nobody has a place in them and the other nodes have been told. */
  readonly #links = new Map<string, RoomLink>();
  /** Nodes with which this one has no address family in common, and which the log has named. */
  readonly #unreachable = new Set<string>();
  /** Nodes that were reported as silent. */
  readonly #silent = new Set<string>();
  #version = 0;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;
  #stopListening = () => {};

  private constructor(
    redis: Redis,
    sealer: Sealer,
    nodes: Nodes,
    bus: Bus,
    relays: Relays,
    settings: ClusterSettings,
    log: FastifyBaseLogger,
    timings: Timings,
  ) {
    this.bus = bus;
    this.rpc = new ClusterRpc(nodes, bus, log, timings.nodes);
    this.sealer = sealer;
    this.#nodes = nodes;
    this.#relays = relays;
    this.#redis = redis;
    this.#log = log;
    this.#settings = settings;
    this.#timings = timings;
  }

  /** @throws {Error} if nodes that run have another key or format */
  static async open(
    redis: Redis,
    settings: ClusterSettings,
    log: FastifyBaseLogger,
    timings: Timings,
  ): Promise<Cluster> {
    const key = settings.clusterKey || (await sharedKey(redis));
    const sealer = new Sealer(key);
    let writeAgain: (() => void) | undefined;
    const events = {
      onAnswered: () => writeAgain?.(),
      onGone: (node: string) => {
        bus.forget(node);
        relays.forget(node);
        cluster.#unreachable.delete(node);
        cluster.#silent.delete(node);
        cluster.#links.forEach((link) => link.nodeDied(node));
      },
      onForgotten: () => {
        cluster.#links.forEach((link) => link.rewrite());
        rewrite().catch((fault: unknown) =>
          log.error({ err: fault }, 'redis lost this node; format and key not rewritten'),
        );
      },
    };
    const nodes = await Nodes.open(redis, log, events, timings.nodes);
    const claim = async () => {
      await claimFormat(redis, timings.nodes.deadAfterMs, nodes.id);
      await checkClusterKey(redis, nodes.id, key, timings.nodes.deadAfterMs);
    };
    const rewrite = async () => {
      // Otherwise the next node without a setting would make another key, and be refused.
      if (settings.clusterKey === '') await keepSharedKey(redis, key);
      await claim();
    };
    try {
      await claim();
    } catch (fault) {
      await nodes.close();
      throw fault;
    }
    const bus = await Bus.open(redis, sealer, nodes.id, log);
    const relays = await Relays.open({
      node: nodes.id,
      clusterKey: key,
      pipes: settings.pipes,
      timings: timings.relay,
      log,
      onMessage: ({ room, peer, message }) => cluster.#links.get(room)?.relayed(peer, message),
    });
    const cluster = new Cluster(redis, sealer, nodes, bus, relays, settings, log, timings);
    writeAgain = () => cluster.#links.forEach((link) => link.retryNow());
    cluster.#stopListening = redis.onReconnect(() => {
      writeAgain?.();
      cluster.#leaveAgain();
    });
    return cluster;
  }

  /** The id of this node. */
  get node(): string {
    return this.#nodes.id;
  }

  /** Number of living nodes as seen here, including this one. */
  get size(): number {
    return this.#nodes.size;
  }

  /** The connected ends of pipes to other nodes, one a room and node, and to how many nodes they lead. */
  countPipes(): { ends: number; nodes: number } {
    const others = [...this.#links.values()].flatMap(({ pipedTo }) => pipedTo);
    return { ends: others.length, nodes: new Set(others).size };
  }

  /** Number of other nodes that share a room with this one, and to which no pipe can lead. */
  countUnreachable(): number {
    return new Set([...this.#links.values()].flatMap(({ unreachable }) => unreachable)).size;
  }

  /** Number of other nodes from which nothing comes back of what is piped to them. */
  countSilent(): number {
    return new Set([...this.#links.values()].flatMap(({ silentNodes }) => silentNodes)).size;
  }

  /** Number of ports that open ends of pipes take. */
  countPipePorts(): number {
    return [...this.#links.values()].reduce((sum, { openPipes }) => sum + openPipes, 0);
  }

  /** The connections to other nodes for messages of unknown formats. */
  countRelays(): number {
    return this.#relays.size;
  }

  /** Links a room of this node with the same room on others; resolves when the peers there are known. */
  async openRoom(
    accountId: number,
    room: string,
    events: RoomLinkEvents,
    log: FastifyBaseLogger,
  ): Promise<RoomLink> {
    const key = roomStateKey(accountId, room);
    const before = this.#links.get(key);
    const link = this.#addLink(accountId, key, events, log);
    // Changes that it could not send to the others yet are sent by its successor.
    if (before) {
      before.abandon();
      link.changed();
    }
    await link.open();
    return link;
  }

  #addLink(accountId: number, key: string, events: RoomLinkEvents, log: FastifyBaseLogger) {
    const link = new RoomLink(
      {
        accountId,
        key,
        node: this.#nodes.id,
        redis: this.#redis,
        sealer: this.sealer,
        pipes: this.#settings.pipes,
        relays: this.#relays,
        nextVersion: () => (this.#version += 1),
        onUnreachable: (node, families) => this.#tellUnreachable(node, families),
        onSilent: (node, isSilent) => this.#noteSilent(node, isSilent),
        log,
        sharedLog: this.#sharedLog,
        timings: this.#timings.pipes,
      },
      events,
      () => {
        if (this.#links.get(key) === link) this.#links.delete(key);
      },
    );
    this.#links.set(key, link);
    return link;
  }

  /** Leaves again the rooms without a link that have this node in Redis: a failover may have lost that it left. */
  #leaveAgain(): void {
    clearTimeout(this.#retry);
    if (this.#isClosed) return;
    this.#leaveUnlinked().catch((fault: unknown) => {
      if (this.#isClosed) return;
      this.#log.warn({ err: fault }, 'rooms of this node not read; retrying');
      this.#retry = setTimeout(() => this.#leaveAgain(), this.#timings.pipes.retryAfterMs);
    });
  }

  async #leaveUnlinked(): Promise<void> {
    const owned = await this.#redis.run((client) => client.sMembers(ownedKeysKey(this.node)));
    if (this.#isClosed) return;
    for (const key of owned) {
      const accountId = accountOfRoomStateKey(key);
      if (accountId === undefined || this.#links.has(key)) continue;
      const link = this.#addLink(accountId, key, NO_EVENTS, this.#log);
      link.changed();
      void link.close();
    }
  }

  /** Tells once of each node until it is not silent any more, whatever number of rooms it shares. */
  #noteSilent(node: string, isSilent: boolean): void {
    const wasSilent = this.#silent.has(node);
    if (isSilent && !wasSilent) {
      this.#silent.add(node);
      this.#log.warn({ node }, SILENT);
    } else if (!isSilent && wasSilent) {
      const others = [...this.#links.values()].flatMap(({ silentNodes }) => silentNodes);
      if (!others.includes(node)) this.#silent.delete(node);
    }
  }

  /** Tells once of each node, whatever number of rooms it shares. */
  #tellUnreachable(node: string, families: readonly IpFamily[]): void {
    if (this.#unreachable.has(node)) return;
    this.#unreachable.add(node);
    const own = this.#settings.pipes.addresses.map(familyOf);
    this.#log.warn({ node, families: own, other_families: families }, NO_COMMON_FAMILY);
  }

  /** Leaves the cluster. Places that are kept in rooms stay there for `keptForMs`, for clients that come back on another node. */
  async close(keptForMs: number): Promise<void> {
    this.#isClosed = true;
    this.#stopListening();
    clearTimeout(this.#retry);
    const links = [...this.#links.values()];
    const keepsPlaces = links.some((link) => link.keepsPlaces);
    await Promise.all(links.map((link) => link.close()));
    for (const link of links) link.abandon();
    this.#relays.close();
    await forgetClusterKey(this.#redis, this.#nodes.id, this.#log);
    await this.#nodes.close(keepsPlaces ? keptForMs : 0);
  }
}

async function sharedKey(redis: Redis): Promise<string> {
  await keepSharedKey(redis, randomBytes(32).toString('base64url'));
  const key = await redis.run((client) => client.get(SHARED_CLUSTER_KEY));
  if (!key) throw new Error('the key of the cluster cannot be read');
  return key;
}

/** Stores the key of the cluster unless Redis has one. */
async function keepSharedKey(redis: Redis, key: string): Promise<void> {
  await redis.run((client) => client.set(SHARED_CLUSTER_KEY, key, { condition: 'NX' }));
}
