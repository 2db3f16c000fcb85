import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { RtpParameters, SrtpParameters } from '../protocol/media-types.ts';
import type { LeaveReason } from '../protocol/messages.ts';
import { FORMAT } from '../store/state-format.ts';

/** State of a room on one node, which the other nodes read: its peers, and its ends of the pipes to them. */

/** Schema of an object that is not checked here, because mediasoup validates it. */
const mediasoupObject = <T>() => Type.Unsafe<T>(Type.Object({}));

const PlacedPeerSchema = Type.Object({
  peer: Type.String(),
  kind: Type.Enum(['websocket', 'webrtc']),
  /** Id of the peer's stay in the room; another one each time that the peer enters. */
  place: Type.String(),
  /** True while its connection is lost and its place is kept. */
  away: Type.Boolean(),
  /** True while it is muted. Older nodes do not send this. */
  muted: Type.Optional(Type.Boolean()),
});

const PipedProducerSchema = Type.Object({
  producer_id: Type.String(),
  peer: Type.String(),
  rtp_parameters: mediasoupObject<RtpParameters>(),
  /** True while it sends nothing. */
  paused: Type.Boolean(),
  /** True if the producer may have sent packets before it was piped: the first ones may be from the middle of a stream. Older nodes do not send this. */
  running: Type.Optional(Type.Boolean()),
});

const PipeEndSchema = Type.Object({
  id: Type.String(),
  ip: Type.String(),
  port: Type.Integer(),
  srtp_parameters: mediasoupObject<SrtpParameters>(),
  /** Id of the end of the other node to which this end is connected. */
  connected_to: Type.Optional(Type.String()),
  sends: Type.Array(PipedProducerSchema),
  /** Ids of the producers of the other node that this node receives over the pipe. */
  hears: Type.Array(Type.String()),
});

/** Address at which a node receives messages of unknown formats from others. */
const RelayAddressSchema = Type.Object({
  ip: Type.String(),
  port: Type.Integer({ minimum: 1, maximum: 65_535 }),
});

const RoomStateSchema = Type.Object({
  format: Type.Literal(FORMAT),
  /** Grows with each state that a node writes. */
  version: Type.Integer(),
  /** True if the node has left, and the places of its peers are kept for a while. */
  departed: Type.Boolean(),
  peers: Type.Array(PlacedPeerSchema),
  /** Peers that have left since the last state, with reasons; written only once. */
  left: Type.Array(
    Type.Object({ peer: Type.String(), reason: Type.Unsafe<LeaveReason>(Type.String()) }),
  ),
  /** This node's ends of pipes, by the node of the other end. */
  pipes: Type.Record(Type.String(), PipeEndSchema),
  /** Families of the addresses at which the node receives media. Older nodes do not send this, and have one address. */
  families: Type.Optional(Type.Array(Type.Enum(['ipv4', 'ipv6']))),
  /** First of `relays`, which older nodes read; absent if the node accepts no relayed messages. */
  relay: Type.Optional(RelayAddressSchema),
  relays: Type.Optional(Type.Array(RelayAddressSchema)),
});

export type PlacedPeer = Static<typeof PlacedPeerSchema>;
export type PipeEnd = Static<typeof PipeEndSchema>;
export type RoomState = Static<typeof RoomStateSchema>;

const validator = Compile(RoomStateSchema);

/** Reads the state of a room; undefined if it is of another format. @throws {Error} if it is not the state of a room */
export function parseRoomState(text: string): RoomState | undefined {
  const state = JSON.parse(text) as { format?: unknown };
  if (validator.Check(state)) return state;
  // Nodes of two formats never run at the same time: the one that wrote this has ended.
  if (state.format !== FORMAT) return undefined;
  throw new Error(`not the state of a room: ${JSON.stringify(validator.Errors(state))}`);
}
