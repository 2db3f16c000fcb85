import { type Static, Type } from 'typebox';
import { LOAD_LEVELS } from '../load/load-level.ts';

/** Descriptions of nodes, rooms and peers for operators, between nodes and over REST. */

const Count = Type.Integer({ minimum: 0 });
const PeerKindSchema = Type.Enum(['websocket', 'webrtc']);

const MediaWorkerSchema = Type.Object({
  index: Count,
  /** None while it is being replaced. */
  pid: Type.Optional(Type.Integer()),
  rtc_port: Count,
  state: Type.Enum(['running', 'replacing']),
  /** Share of one core. */
  cpu: Type.Number(),
  routers: Count,
  consumers: Count,
  restarts: Count,
});

export const NodeDescriptionSchema = Type.Object({
  id: Type.String(),
  /** Host and process. */
  name: Type.String(),
  version: Type.String(),
  started_at: Type.String(),
  state: Type.Enum(['running', 'draining']),
  load: Type.Object({
    level: Type.Enum([...LOAD_LEVELS]),
    loop_delay_ms: Type.Object({ p50: Type.Number(), p99: Type.Number() }),
    /** Shares of CPU: of the process, of all cores; of the event loop, of one. */
    cpu: Type.Object({ process: Type.Number(), event_loop: Type.Number() }),
    memory_bytes: Count,
  }),
  media_workers: Type.Array(MediaWorkerSchema),
  sessions: Count,
  rooms: Count,
  /** Connections, without peers whose connection is lost. */
  peers: Type.Object({ websocket: Count, webrtc: Count }),
  kept_places: Count,
  /** Connected ends of pipes, one for each room and node, and the number of nodes to which they lead. */
  pipes: Type.Object({ ends: Count, nodes: Count }),
  /** Dropped packets and frames since the start, by reason. */
  dropped: Type.Record(Type.String(), Count),
});
export type NodeDescription = Static<typeof NodeDescriptionSchema>;

export const RoomSummarySchema = Type.Object({
  account_id: Type.Integer(),
  room: Type.String(),
  websocket: Count,
  webrtc: Count,
  /** Number of peers among these whose connection is lost. */
  away: Count,
  talking: Count,
});
export type RoomSummary = Static<typeof RoomSummarySchema>;

/** Position of a room in the list of all. */
export const RoomReferenceSchema = Type.Object({ account_id: Type.Integer(), room: Type.String() });
export type RoomReference = Static<typeof RoomReferenceSchema>;

/** A part of the list of rooms. */
export const RoomQuerySchema = Type.Object({
  /** Selects rooms after this position. */
  after: Type.Optional(RoomReferenceSchema),
  limit: Count,
  /** Part of the name, case-insensitive. */
  search: Type.String(),
});
export type RoomQuery = Static<typeof RoomQuerySchema>;

const PeerOfNodeSchema = Type.Object({
  peer: Type.String(),
  kind: PeerKindSchema,
  /** True while its connection is lost and its place is kept. */
  away: Type.Boolean(),
  /** Nodes of an older version do not send this. */
  talking: Type.Optional(Type.Boolean()),
  /** dBov; absent while it does not talk, or talks in an unknown format. */
  level_dbov: Type.Optional(Type.Number()),
  /** Audio statistics of a WebSocket peer in this room. */
  audio: Type.Optional(
    Type.Object({
      buffered_ms: Type.Number(),
      drift_ppm: Type.Number(),
      dropped_ms: Type.Number(),
      concealed_ms: Type.Number(),
    }),
  ),
});
export const PeersOfNodeSchema = Type.Array(PeerOfNodeSchema);
export type PeerOfNode = Static<typeof PeerOfNodeSchema>;

const PeerDescriptionSchema = Type.Object({
  ...PeerOfNodeSchema.properties,
  /** The id of the node on which it is. */
  node: Type.String(),
});
export type PeerDescription = Static<typeof PeerDescriptionSchema>;

/** Living nodes that did not answer; their part is missing. */
const unreachable = Type.Array(Type.String());
export const NodeListSchema = Type.Object({
  nodes: Type.Array(NodeDescriptionSchema),
  unreachable,
});
export const RoomListSchema = Type.Object({
  rooms: Type.Array(RoomSummarySchema),
  /** Value of `after` for the next part, if there is one. */
  next: Type.Optional(Type.String()),
  unreachable,
});
export const RoomDescriptionSchema = Type.Object({
  ...RoomReferenceSchema.properties,
  peers: Type.Array(PeerDescriptionSchema),
  unreachable,
});
export type NodeList = Static<typeof NodeListSchema>;
export type RoomList = Static<typeof RoomListSchema>;
export type RoomDescription = Static<typeof RoomDescriptionSchema>;
