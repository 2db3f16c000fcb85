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
    /** Shares: of the process, of all cores; of the event loop, of one. */
    cpu: Type.Object({ process: Type.Number(), event_loop: Type.Number() }),
    memory_bytes: Count,
  }),
  media_workers: Type.Array(MediaWorkerSchema),
  sessions: Count,
  rooms: Count,
  /** Those whose connection is lost are not among them. */
  peers: Type.Object({ websocket: Count, webrtc: Count }),
  kept_places: Count,
  /** Ends that are connected, one a room and node, and to how many nodes they lead. */
  pipes: Type.Object({ ends: Count, nodes: Count }),
  /** Packets and frames that nobody heard, by why, since the start. */
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

/** Where a room stands in the list of all. */
export const RoomKeySchema = Type.Object({ account_id: Type.Integer(), room: Type.String() });
export type RoomKey = Static<typeof RoomKeySchema>;

/** A part of the list of rooms. */
export const RoomQuerySchema = Type.Object({
  /** Those that come after this one. */
  after: Type.Optional(RoomKeySchema),
  limit: Count,
  /** Part of the names, in whatever case. */
  search: Type.String(),
});
export type RoomQuery = Static<typeof RoomQuerySchema>;

const PeerOfNodeSchema = Type.Object({
  peer: Type.String(),
  kind: PeerKindSchema,
  /** Its connection is lost, and its place kept. */
  away: Type.Boolean(),
  /** dBov; absent while it does not talk. */
  level_dbov: Type.Optional(Type.Number()),
  /** How the audio of a WebSocket peer has fared in this room. */
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

/** Nodes that live but did not answer: what they have is missing. */
const unreachable = Type.Array(Type.String());
export const NodeListSchema = Type.Object({
  nodes: Type.Array(NodeDescriptionSchema),
  unreachable,
});
export const RoomListSchema = Type.Object({
  rooms: Type.Array(RoomSummarySchema),
  /** The `after` of the next part, if there is one. */
  next: Type.Optional(Type.String()),
  unreachable,
});
export const RoomDescriptionSchema = Type.Object({
  ...RoomKeySchema.properties,
  peers: Type.Array(PeerDescriptionSchema),
  unreachable,
});
export type NodeList = Static<typeof NodeListSchema>;
export type RoomList = Static<typeof RoomListSchema>;
export type RoomDescription = Static<typeof RoomDescriptionSchema>;
