import { type Static, type TSchema, Type } from 'typebox';
import { CLOSE_CODES, type ErrorCode } from './close-codes.ts';
import type { PartylineError } from './errors.ts';
import type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  IceServer,
  RtpCapabilities,
  RtpParameters,
} from './media-types.ts';

/**
 * Text frames that the gateway sends on `/ws` (docs/protocol.md), as schemas: types here, checks in tests,
 * and the docs follow.
 */

export const messageId = Type.Union([Type.String(), Type.Number()]);

/** Name that a client gives one of its messages; the answer carries it, cut to 128 characters. */
export type MessageId = Static<typeof messageId>;

/** An object that mediasoup makes, in its own camelCase. */
const mediasoupObject = <T>() => Type.Unsafe<T>(Type.Object({}));

/** An object without additional fields. */
const exactly = <T extends Record<string, TSchema>>(fields: T) =>
  Type.Object(fields, { additionalProperties: false });

/** A message; `reply_to` is the `id` of the message that it answers. */
const message = <const Name extends string, T extends Record<string, TSchema>>(
  type: Name,
  fields: T,
) => exactly({ type: Type.Literal(type), reply_to: Type.Optional(messageId), ...fields });

const peerKind = Type.Enum(['websocket', 'webrtc']);
export type PeerKind = Static<typeof peerKind>;

const peerDescription = {
  peer: Type.String(),
  kind: peerKind,
  /** Stands in the header of this peer's frames under `delivery=forward`. */
  speaker: Type.Integer(),
  muted: Type.Boolean(),
};
const PeerDescriptionSchema = exactly(peerDescription);
export type PeerDescription = Static<typeof PeerDescriptionSchema>;

/** `level_dbov`: 0 is the loudest, negative below; absent for a peer whose format is unknown. */
const SpeakingPeerSchema = exactly({
  peer: Type.String(),
  level_dbov: Type.Optional(Type.Number()),
});
export type SpeakingPeer = Static<typeof SpeakingPeerSchema>;

const TransportDescriptionSchema = exactly({
  id: Type.String(),
  ice_parameters: mediasoupObject<IceParameters>(),
  ice_candidates: Type.Array(mediasoupObject<IceCandidate>()),
  dtls_parameters: mediasoupObject<DtlsParameters>(),
  ice_servers: Type.Optional(Type.Array(mediasoupObject<IceServer>())),
});
export type TransportDescription = Static<typeof TransportDescriptionSchema>;

const WebRtcDescriptionSchema = exactly({
  router_rtp_capabilities: mediasoupObject<RtpCapabilities>(),
  send_transport: TransportDescriptionSchema,
  recv_transport: TransportDescriptionSchema,
});
export type WebRtcDescription = Static<typeof WebRtcDescriptionSchema>;

/** Consumer of a peer, which a browser hears once it has asked to resume it. */
const consumerDescription = {
  consumer_id: Type.String(),
  producer_id: Type.String(),
  peer: Type.String(),
  kind: Type.Literal('audio'),
  rtp_parameters: mediasoupObject<RtpParameters>(),
};
const ConsumerDescriptionSchema = exactly(consumerDescription);
export type ConsumerDescription = Static<typeof ConsumerDescriptionSchema>;

const errorCode = Type.Unsafe<ErrorCode>(Type.Enum(Object.keys(CLOSE_CODES)));

/** Reason for which a peer left a room or was removed from it. */
export type LeaveReason = 'left' | 'moved' | 'closed' | 'replaced' | ErrorCode;
const leaveReason = Type.Unsafe<LeaveReason>(
  Type.Enum(['left', 'moved', 'closed', ...Object.keys(CLOSE_CODES)]),
);

/** Formats of a client's binary frames in both directions; `in` is `auto` until it has been detected. */
const AudioDescriptionSchema = exactly({
  in: Type.String(),
  out: Type.String(),
  delivery: Type.Enum(['mix', 'forward']),
});
export type AudioDescription = Static<typeof AudioDescriptionSchema>;

/** Gains by peer. */
const volume = Type.Record(Type.String(), Type.Number());

/** Audio settings of a client, as sent to it. */
const settings = {
  audio: AudioDescriptionSchema,
  volume,
  mute: Type.Boolean(),
  /** Gains by peer that do not apply at present. */
  not_applied: Type.Optional(volume),
};
const SettingsDescriptionSchema = exactly(settings);
export type SettingsDescription = Static<typeof SettingsDescriptionSchema>;

/** Statistics of a client's audio since it connected. */
const stats = {
  /** Received audio that waits for its time. */
  ingest_ms: Type.Number(),
  /** Deviation of the client's clock from the gateway's; positive if it is faster. */
  drift_ppm: Type.Number(),
  /** Audio dropped in both directions: sent too fast, or not read. */
  dropped_ms: Type.Number(),
  /** Concealed audio in place of lost packets, in what the client heard. */
  concealed_ms: Type.Number(),
  /** Audio that waits for the client to read. */
  send_queue_ms: Type.Number(),
  /** Duration of the last ping; absent before the first. */
  rtt_ms: Type.Optional(Type.Number()),
};
const StatsSchema = exactly(stats);
export type Stats = Static<typeof StatsSchema>;

export const SERVER_MESSAGES = {
  welcome: message('welcome', {
    peer: Type.String(),
    room: Type.String(),
    session_id: Type.String(),
    /** Token that resumes the session, with `session_id`, in the query of another connection. */
    resume_token: Type.String(),
    /** The session is the one that the client had before. */
    resumed: Type.Optional(Type.Literal(true)),
    audio: AudioDescriptionSchema,
    /** Present with `resumed`: the session's settings, which still apply. */
    volume: Type.Optional(volume),
    mute: Type.Optional(Type.Boolean()),
    not_applied: Type.Optional(volume),
    limits: exactly({
      max_ccu: Type.Integer(),
      current_ccu: Type.Integer(),
      remaining_minutes: Type.Number(),
    }),
    heartbeat_ms: Type.Number(),
    /** Network of the client's address. */
    network: Type.String(),
    /** Time for which the place of a client is kept after its connection is lost. */
    resume_ms: Type.Number(),
  }),
  joined: message('joined', {
    room: Type.String(),
    speaker: Type.Integer(),
    peers: Type.Array(PeerDescriptionSchema),
    webrtc: Type.Optional(WebRtcDescriptionSchema),
    /** All consumers of a browser that resumed: messages sent while it was away may not have reached it. */
    consumers: Type.Optional(Type.Array(ConsumerDescriptionSchema)),
  }),
  left: message('left', { room: Type.String(), reason: leaveReason }),
  peer_joined: message('peer_joined', peerDescription),
  /** With `muted`, or with `kind` and `speaker`. */
  peer_changed: message('peer_changed', {
    peer: Type.String(),
    muted: Type.Optional(Type.Boolean()),
    kind: Type.Optional(peerKind),
    speaker: Type.Optional(Type.Integer()),
  }),
  /** The change between WebSocket and WebRTC that a `join` began is complete. */
  media_changed: message('media_changed', { kind: peerKind, volume, mute: Type.Boolean() }),
  /** RTP of a browser has stopped, or arrives again. */
  rtp_flow: message('rtp_flow', { state: Type.Enum(['stopped', 'flowing']) }),
  peer_left: message('peer_left', {
    peer: Type.String(),
    speaker: Type.Integer(),
    reason: leaveReason,
  }),
  speaking: message('speaking', { peers: Type.Array(SpeakingPeerSchema) }),
  configured: message('configured', settings),
  stats: message('stats', stats),
  media_restarted: message('media_restarted', {}),
  draining: message('draining', { deadline_ms: Type.Number() }),
  quota_warning: message('quota_warning', {
    remaining_minutes: Type.Number(),
    resets_at: Type.String(),
  }),
  flow: message('flow', {
    state: Type.Enum(['xoff', 'xon']),
    buffered_ms: Type.Number(),
    /** Audio dropped since the client joined the room, because it was ahead of time. */
    dropped_ms: Type.Number(),
  }),
  audio_detected: message('audio_detected', { in: Type.String(), out: Type.String() }),
  audio_unknown: message('audio_unknown', { relayed: Type.Boolean() }),
  format_mismatch: message('format_mismatch', {
    declared: Type.String(),
    observed: Type.String(),
    confidence: Type.Number(),
  }),
  transport_connected: message('transport_connected', { transport_id: Type.String() }),
  produced: message('produced', { producer_id: Type.String() }),
  producer_paused: message('producer_paused', { producer_id: Type.String() }),
  producer_resumed: message('producer_resumed', { producer_id: Type.String() }),
  new_consumer: message('new_consumer', consumerDescription),
  consumer_resumed: message('consumer_resumed', { consumer_id: Type.String() }),
  consumer_closed: message('consumer_closed', { consumer_id: Type.String() }),
  ice_restarted: message('ice_restarted', {
    transport_id: Type.String(),
    ice_parameters: mediasoupObject<IceParameters>(),
    ice_servers: Type.Optional(Type.Array(mediasoupObject<IceServer>())),
  }),
  error: message('error', {
    code: errorCode,
    message: Type.String(),
    retryable: Type.Boolean(),
    retry_after_ms: Type.Optional(Type.Number()),
    resets_at: Type.Optional(Type.String()),
  }),
};

type ServerMessages = { [T in keyof typeof SERVER_MESSAGES]: Static<(typeof SERVER_MESSAGES)[T]> };

/** A text frame that the gateway sends. */
export type ServerMessage = ServerMessages[keyof ServerMessages];

/** Returns the message that reports a fault to a client. */
export function errorMessage(error: PartylineError): ServerMessage {
  const { code, message: sentence, kind, retryAfterMs, resetsAt } = error;
  const retryAfter = retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs };
  const resets = resetsAt === undefined ? {} : { resets_at: resetsAt };
  const { retryable } = kind;
  return { type: 'error', code, message: sentence, retryable, ...retryAfter, ...resets };
}
