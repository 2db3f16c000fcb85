import { randomBytes } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import type { PipeSettings } from '../media/node-pipe.ts';
import { roomKey, SHARED_CLUSTER_KEY } from '../store/keys.ts';
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
  /** Known to all nodes; empty: they find one in Redis, so that whoever may read it is a node. */
  clusterKey: string;
  pipes: PipeSettings;
};

/** This node among the others that share its Redis: which of them live, and in which rooms they have peers. */
export class Cluster {
  readonly bus: Bus;
  readonly questions: ClusterRpc;
  /** Seals what only nodes may read or write. */
  readonly sealer: Sealer;
  readonly #nodes: Nodes;
  readonly #relays: Relays;
  readonly #redis: Redis;
  readonly #settings: ClusterSettings;
  readonly #log: FastifyBaseLogger;
  readonly #timings: Timings;
  /** By key; those that have been closed stay until the others know. */
  readonly #links = new Map<string, RoomLink>();
  /** Rooms were closed in which peers have places yet, as this node goes away. */
  #keepsPlaces = false;
  #version = 0;

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
    this.questions = new ClusterRpc(nodes, bus, log, timings.nodes);
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
    const events = {
      onDead: (node: string) => {
        bus.forget(node);
        relays.forget(node);
        cluster.#links.forEach((link) => link.nodeDied(node));
      },
      onForgotten: () => {
        cluster.#links.forEach((link) => link.rewrite());
        claim().catch((fault: unknown) =>
          log.error(
            { err: fault },
            'this node was forgotten by Redis, and cannot note its format and key there again',
          ),
        );
      },
    };
    const nodes = await Nodes.open(redis, log, events, timings.nodes);
    const claim = async () => {
      await claimFormat(redis, timings.nodes.deadAfterMs, nodes.id);
      await checkClusterKey(redis, nodes.id, key, timings.nodes.deadAfterMs);
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
    return cluster;
  }

  /** The id of this node. */
  get node(): string {
    return this.#nodes.id;
  }

  /** How many nodes live, as seen here, this one among them. */
  get size(): number {
    return this.#nodes.size;
  }

  /** The connected ends of pipes to other nodes, one a room and node, and to how many nodes they lead. */
  countPipes(): { ends: number; nodes: number } {
    const others = [...this.#links.values()].flatMap(({ pipedTo }) => pipedTo);
    return { ends: others.length, nodes: new Set(others).size };
  }

  /** Number of ports that pipes take: of all ends that are open. */
  countPipePorts(): number {
    return [...this.#links.values()].reduce((sum, { openPipes }) => sum + openPipes, 0);
  }

  /** The connections to other nodes for messages of unknown formats. */
  countRelays(): number {
    return this.#relays.size;
  }

  /** Links a room of this node with the same room on others; resolves when it is known who is there. */
  async openRoom(
    accountId: number,
    room: string,
    events: RoomLinkEvents,
    log: FastifyBaseLogger,
  ): Promise<RoomLink> {
    const key = roomKey(accountId, room);
    const before = this.#links.get(key);
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
        log,
        timings: this.#timings.pipes,
      },
      events,
      () => {
        this.#keepsPlaces ||= link.keepsPlaces;
        if (this.#links.get(key) === link) this.#links.delete(key);
      },
    );
    this.#links.set(key, link);
    // Changes that it could not tell the others yet are told by its successor.
    if (before) {
      before.abandon();
      link.changed();
    }
    await link.open();
    return link;
  }

  /** Leaves the cluster. Places that are kept in rooms stay there for `keptForMs`, for clients that come back on another node. */
  async close(keptForMs: number): Promise<void> {
    const links = [...this.#links.values()];
    const keepsPlaces = this.#keepsPlaces || links.some((link) => link.keepsPlaces);
    await Promise.all(links.map((link) => link.close()));
    for (const link of links) link.abandon();
    this.#relays.close();
    await forgetClusterKey(this.#redis, this.#nodes.id, this.#log);
    await this.#nodes.close(keepsPlaces ? keptForMs : 0);
  }
}

async function sharedKey(redis: Redis): Promise<string> {
  const key = await redis.run(async (client) => {
    await client.set(SHARED_CLUSTER_KEY, randomBytes(32).toString('base64url'), {
      condition: 'NX',
    });
    return client.get(SHARED_CLUSTER_KEY);
  });
  if (!key) throw new Error('the key of the cluster cannot be read');
  return key;
}
