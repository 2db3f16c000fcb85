import { Type } from 'typebox';
import type { ClusterRpc, RemoteCall, Replies } from '../cluster/cluster-rpc.ts';
import { PartylineError } from '../protocol/errors.ts';
import type { RoomRegistry } from '../rooms/registry.ts';
import { describePeers, summarizeRoom } from './describe-node.ts';
import { keyText, mergeRooms, selectRooms } from './room-lists.ts';
import {
  type NodeDescription,
  NodeDescriptionSchema,
  type NodeList,
  type PeerDescription,
  type PeerOfNode,
  PeersOfNodeSchema,
  type RoomDescription,
  type RoomReference,
  RoomReferenceSchema,
  type RoomList,
  type RoomQuery,
  RoomQuerySchema,
  type RoomSummary,
  RoomSummarySchema,
} from './schemas.ts';

const NothingSchema = Type.Object({});
const DrainSchema = Type.Object({
  deadline_ms: Type.Optional(Type.Integer()),
  /** Nodes of an older version do not send this. */
  by: Type.Optional(Type.String()),
});
const DrainingSchema = Type.Object({ deadline_ms: Type.Optional(Type.Integer()) });
const KickSchema = Type.Object({ account_id: Type.Integer(), peer: Type.String() });
const MuteSchema = Type.Object({ ...KickSchema.properties, muted: Type.Boolean() });

/** Queries and actions that an operator has for a node. */
export type OperatedNode = {
  describe(): NodeDescription;
  rooms: RoomRegistry;
  /** Ends the node when its clients have left, or after `withinMs`. @returns the time that they have, ms */
  drain(withinMs: number | undefined, by: string): number;
  /** Closes a peer's connection, and removes its kept place. @returns false if the peer is neither connected to this node nor kept here */
  kick(accountId: number, peer: string): boolean;
  /** Mutes or unmutes a peer. @returns false if it is neither connected to this node nor kept here */
  mute(accountId: number, peer: string, isMuted: boolean): Promise<boolean>;
};

/** Queries and actions of an operator for all nodes, at any of them. */
export class Operator {
  readonly #node: OperatedNode;
  readonly #callDescribe: RemoteCall<object, NodeDescription>;
  readonly #callRooms: RemoteCall<RoomQuery, RoomSummary[]>;
  readonly #callRoom: RemoteCall<RoomReference, PeerOfNode[]>;
  readonly #callDrain: RemoteCall<{ deadline_ms?: number; by?: string }, { deadline_ms?: number }>;
  readonly #callKick: RemoteCall<{ account_id: number; peer: string }, boolean>;
  readonly #callMute: RemoteCall<{ account_id: number; peer: string; muted: boolean }, boolean>;

  constructor(rpc: ClusterRpc, node: OperatedNode) {
    this.#node = node;
    const { rooms } = node;
    this.#callDescribe = rpc.handle('describe', NothingSchema, NodeDescriptionSchema, () =>
      node.describe(),
    );
    this.#callRooms = rpc.handle(
      'rooms',
      RoomQuerySchema,
      Type.Array(RoomSummarySchema),
      (query) => {
        const listed = rooms.opened.map((room) => ({
          account_id: room.key.accountId,
          room: room.key.name,
          opened: room,
        }));
        return selectRooms(listed, query).map(({ opened }) => summarizeRoom(opened));
      },
    );
    this.#callRoom = rpc.handle('room', RoomReferenceSchema, PeersOfNodeSchema, (key) => {
      const room = rooms.find(key.account_id, key.room);
      return room ? describePeers(room) : [];
    });
    this.#callDrain = rpc.handle('drain', DrainSchema, DrainingSchema, (request) => ({
      deadline_ms: node.drain(request.deadline_ms, request.by ?? 'another node'),
    }));
    this.#callKick = rpc.handle('kick', KickSchema, Type.Boolean(), (request) =>
      node.kick(request.account_id, request.peer),
    );
    this.#callMute = rpc.handle('mute', MuteSchema, Type.Boolean(), (request) =>
      node.mute(request.account_id, request.peer, request.muted),
    );
  }

  /** Returns the description of this node, even while Redis is disconnected. */
  self(): NodeDescription {
    return this.#node.describe();
  }

  /**
   * Returns all living nodes.
   * @throws {PartylineError} `overloaded` while Redis is disconnected, as do the methods that follow
   */
  async nodes(): Promise<NodeList> {
    const { replies, unreachable } = await this.#callDescribe({});
    const nodes = [...replies.values()].toSorted((a, b) =>
      `${a.started_at} ${a.id}` < `${b.started_at} ${b.id}` ? -1 : 1,
    );
    return { nodes, unreachable };
  }

  /** Returns a part of the list of rooms that have peers on any node. */
  async rooms(query: RoomQuery): Promise<RoomList> {
    // One more than is returned shows whether there are more. The first rooms of all nodes are
    // among the first rooms of each node.
    const { replies, unreachable } = await this.#callRooms({ ...query, limit: query.limit + 1 });
    const merged = mergeRooms([...replies.values()].flat());
    const found = selectRooms(merged, { ...query, limit: query.limit + 1 });
    const rooms = found.slice(0, query.limit);
    const last = rooms.at(-1);
    return {
      rooms,
      ...(found.length > rooms.length && last && { next: keyText(last) }),
      unreachable,
    };
  }

  /**
   * Returns one room with its peers.
   * @throws {PartylineError} `not_found` if it has none; `overloaded` if a node has not replied that may have them
   */
  async room(key: RoomReference): Promise<RoomDescription> {
    const { replies, unreachable } = await this.#callRoom(key);
    const all = [...replies].flatMap(([node, peers]) => peers.map((peer) => ({ ...peer, node })));
    const peers = all
      .filter((peer) => !(peer.away && isBack(peer, all)))
      .toSorted((a, b) => (a.peer < b.peer ? -1 : 1));
    if (peers.length === 0) throw missing('This room has no peers.', unreachable);
    return { ...key, peers, unreachable };
  }

  /**
   * Drains a node: it accepts no more clients, and ends when its clients have left, or after `withinMs`.
   * @param by requester, for that node's log
   * @returns the time that its clients have, ms
   * @throws {PartylineError} `not_found` if no such node lives; `overloaded` if it has not replied
   */
  async drain(node: string, withinMs: number | undefined, by: string): Promise<number> {
    const request = { by, ...(withinMs !== undefined && { deadline_ms: withinMs }) };
    const { replies, unreachable } = await this.#callDrain(request, node);
    const [reply] = replies.values();
    if (!reply) throw missing('There is no such node.', unreachable);
    // A node of an older version does not send this.
    return reply.deadline_ms ?? withinMs ?? 0;
  }

  /**
   * Closes a peer on any node.
   * @throws {PartylineError} `not_found` if no node knows it; `overloaded` if a node has not replied that may know it
   */
  async kick(accountId: number, peer: string): Promise<void> {
    const { replies, unreachable } = await this.#callKick({ account_id: accountId, peer });
    if ([...replies.values()].includes(true)) return;
    throw missing('There is no such peer on any node.', unreachable);
  }

  /**
   * Mutes or unmutes a peer on any node, connected or away.
   * @throws {PartylineError} `not_found` if no node knows it; `overloaded` if a node has not replied that may know it
   */
  async mute(accountId: number, peer: string, isMuted: boolean): Promise<void> {
    const asked = { account_id: accountId, peer, muted: isMuted };
    const { replies, unreachable } = await this.#callMute(asked);
    if ([...replies.values()].includes(true)) return;
    throw missing('There is no such peer on any node.', unreachable);
  }
}

/** Returns whether a peer whose place is kept has a connection to another node. */
const isBack = (away: PeerDescription, all: PeerDescription[]) =>
  all.some(({ peer, away: isAway }) => peer === away.peer && !isAway);

/** Returns the fault for a peer or room that was not found: it may be on a node that did not answer. */
function missing(what: string, unreachable: Replies<unknown>['unreachable']): PartylineError {
  if (unreachable.length === 0) return new PartylineError('not_found', what);
  const options = { retryAfterMs: 1000 };
  return new PartylineError('overloaded', 'Not all nodes have answered.', options);
}
