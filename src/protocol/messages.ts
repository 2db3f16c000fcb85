import { type Static, type TObject, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import type { ErrorCode } from './close-codes.ts';
import { PartylineError } from './errors.ts';
import type {
  DtlsParameters,
  IceCandidate,
  IceParameters,
  IceServer,
  RtpCapabilities,
  RtpParameters,
} from './media-types.ts';
import { describeFaults } from './schema-faults.ts';
import {
  DtlsParametersSchema,
  RtpCapabilitiesSchema,
  RtpParametersSchema,
} from './webrtc-parameters.ts';

/** The text frames of `/ws` (docs/protocol.md): what a client may send, as schemas; what it is sent, as types. */

const messageId = Type.Union([Type.String(), Type.Number()]);
const id = Type.Optional(messageId);

const MAX_ID_CHARACTERS = 128;

/** What a client calls one of its messages; the answer carries it, of a longer one the first 128 characters. */
export type MessageId = Static<typeof messageId>;

const reference = Type.String({ minLength: 1, maxLength: 128 });

const CLIENT_MESSAGES = {
  join: Type.Object({
    type: Type.Literal('join'),
    id,
    room: Type.String(),
    media: Type.Optional(Type.Literal('webrtc')),
    rtp_capabilities: Type.Optional(RtpCapabilitiesSchema),
  }),
  leave: Type.Object({ type: Type.Literal('leave'), id }),
  configure: Type.Object({
    type: Type.Literal('configure'),
    id,
    audio: Type.Optional(Type.String()),
    audio_out: Type.Optional(Type.String()),
    delivery: Type.Optional(Type.Enum(['mix', 'forward'])),
    /** By peer: what its sound is multiplied by. */
    volume: Type.Optional(
      Type.Record(
        Type.String({ minLength: 1, maxLength: 512 }),
        Type.Number({ minimum: 0, maximum: 4 }),
        {
          maxProperties: 1000,
        },
      ),
    ),
    mute: Type.Optional(Type.Boolean()),
  }),
  connect_transport: Type.Object({
    type: Type.Literal('connect_transport'),
    id,
    transport_id: reference,
    dtls_parameters: DtlsParametersSchema,
  }),
  produce: Type.Object({
    type: Type.Literal('produce'),
    id,
    transport_id: reference,
    kind: Type.Literal('audio'),
    rtp_parameters: RtpParametersSchema,
  }),
  pause_producer: Type.Object({ type: Type.Literal('pause_producer'), id, producer_id: reference }),
  resume_producer: Type.Object({
    type: Type.Literal('resume_producer'),
    id,
    producer_id: reference,
  }),
  resume_consumer: Type.Object({
    type: Type.Literal('resume_consumer'),
    id,
    consumer_id: reference,
  }),
  restart_ice: Type.Object({ type: Type.Literal('restart_ice'), id, transport_id: reference }),
} satisfies Record<string, TObject>;

type ClientMessageType = keyof typeof CLIENT_MESSAGES;
export type ClientMessages = { [T in ClientMessageType]: Static<(typeof CLIENT_MESSAGES)[T]> };
export type ClientMessage = ClientMessages[ClientMessageType];

const envelope = Compile(Type.Object({ type: Type.String(), id }));
const validators = new Map(
  Object.entries(CLIENT_MESSAGES).map(([type, schema]) => [type, Compile(schema)] as const),
);
const isClientMessage = (type: string, message: unknown): message is ClientMessage =>
  validators.get(type)?.Check(message) ?? false;

/** A text frame that is not a message; carries the `id` that the client gave, if it could be read. */
export class MessageError extends PartylineError {
  readonly replyTo: MessageId | undefined;

  constructor(message: string, replyTo?: MessageId) {
    super('bad_message', message);
    this.replyTo = replyTo;
  }
}

/**
 * Reads one text frame of a client.
 * @throws {MessageError} malformed JSON, not an object, an unknown `type`, a missing field or one of a wrong type
 */
export function parseClientMessage(text: string): ClientMessage {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch (cause) {
    throw new MessageError(`Not JSON: ${cause instanceof Error ? cause.message : 'unreadable'}.`);
  }
  if (!envelope.Check(message)) {
    throw new MessageError(
      'A message is a JSON object with a string "type" (and, if it likes, an "id": a string or a number).',
    );
  }
  const { type } = message;
  if (typeof message.id === 'string') message.id = cutId(message.id);
  const replyTo = message.id;
  const validator = validators.get(type);
  if (!validator) {
    throw new MessageError(
      `Unknown type; known are ${[...validators.keys()].join(', ')}.`,
      replyTo,
    );
  }
  if (isClientMessage(type, message)) return message;
  throw new MessageError(`${type}: ${describeFaults(validator.Errors(message))}.`, replyTo);
}

function cutId(messageName: string): string {
  if (messageName.length <= MAX_ID_CHARACTERS) return messageName;
  // No character has more than two UTF-16 units.
  const characters = Array.from(messageName.slice(0, 2 * MAX_ID_CHARACTERS));
  return characters.slice(0, MAX_ID_CHARACTERS).join('');
}

export type PeerKind = 'websocket' | 'webrtc';

/** `speaker` is the number that stands in the head of this peer's frames under `delivery=forward`. */
export type PeerDescription = { peer: string; kind: PeerKind; speaker: number; muted: boolean };

/** `level_dbov`: 0 is the loudest, negative below; absent where nobody knows what the peer's bytes mean. */
export type SpeakingPeer = { peer: string; level_dbov?: number };

export type TransportDescription = {
  id: string;
  ice_parameters: IceParameters;
  ice_candidates: IceCandidate[];
  dtls_parameters: DtlsParameters;
  ice_servers?: IceServer[];
};

export type WebRtcDescription = {
  router_rtp_capabilities: RtpCapabilities;
  send_transport: TransportDescription;
  recv_transport: TransportDescription;
};

/** Somebody who is heard by a browser from now on, once the browser has asked for it to be resumed. */
export type ConsumerDescription = {
  consumer_id: string;
  producer_id: string;
  peer: string;
  kind: 'audio';
  rtp_parameters: RtpParameters;
};

export type LeaveReason = 'left' | 'moved' | 'closed' | 'replaced' | ErrorCode;

/** The formats of a client's binary frames both ways; `in` is `auto` until it has been found out. */
export type AudioDescription = { in: string; out: string; delivery: 'mix' | 'forward' };

/** Everything that a client has set of its audio, as it is told. */
export type SettingsDescription = {
  audio: AudioDescription;
  volume: Record<string, number>;
  mute: boolean;
  /** By peer: volumes that do not apply for now. */
  not_applied?: Record<string, number>;
};

/** How a client's audio fares, since it connected. */
export type Stats = {
  /** What it sent that waits for its time. */
  ingest_ms: number;
  /** How much faster than ours its clock is. */
  drift_ppm: number;
  /** What was left out, both ways: sent too fast, or not read. */
  dropped_ms: number;
  /** What was made up in place of what got lost, in what it heard. */
  concealed_ms: number;
  /** What waits for it to read. */
  send_queue_ms: number;
  /** How long a ping took, the last time; absent before the first. */
  rtt_ms?: number;
};

/** What the gateway says in text frames. `reply_to` is the `id` of the message that is answered. */
export type ServerMessage = { reply_to?: MessageId } & (
  | {
      type: 'welcome';
      peer: string;
      room: string;
      session_id: string;
      /** With `session_id`, in the query of another connection: resumes the session. */
      resume_token: string;
      /** The session is the one that the client had before. */
      resumed?: true;
      audio: AudioDescription;
      /** With `resumed`: what the session had set holds still. */
      volume?: Record<string, number>;
      mute?: boolean;
      not_applied?: Record<string, number>;
      limits: { max_ccu: number; current_ccu: number; remaining_minutes: number };
      heartbeat_ms: number;
      /** How long the place of a client whose connection is lost is kept. */
      resume_ms: number;
    }
  | {
      type: 'joined';
      room: string;
      speaker: number;
      peers: PeerDescription[];
      webrtc?: WebRtcDescription;
      /** All that a browser has which came back to its transports: what was said meanwhile may not have reached it. */
      consumers?: ConsumerDescription[];
    }
  | { type: 'left'; room: string; reason: LeaveReason }
  | ({ type: 'peer_joined' } & PeerDescription)
  | { type: 'peer_changed'; peer: string; muted: boolean }
  | { type: 'peer_left'; peer: string; speaker: number; reason: LeaveReason }
  | { type: 'speaking'; peers: SpeakingPeer[] }
  | ({ type: 'configured' } & SettingsDescription)
  | ({ type: 'stats' } & Stats)
  | { type: 'media_restarted' }
  | { type: 'draining'; deadline_ms: number }
  | { type: 'quota_warning'; remaining_minutes: number; resets_at: string }
  | { type: 'flow'; state: 'xoff' | 'xon'; buffered_ms: number }
  | { type: 'audio_detected'; in: string; out: string }
  | { type: 'audio_unknown'; relayed: boolean }
  | { type: 'format_mismatch'; declared: string; observed: string; confidence: number }
  | { type: 'transport_connected'; transport_id: string }
  | { type: 'produced'; producer_id: string }
  | { type: 'producer_paused'; producer_id: string }
  | { type: 'producer_resumed'; producer_id: string }
  | ({ type: 'new_consumer' } & ConsumerDescription)
  | { type: 'consumer_resumed'; consumer_id: string }
  | { type: 'consumer_closed'; consumer_id: string }
  | { type: 'ice_restarted'; transport_id: string; ice_parameters: IceParameters }
  | {
      type: 'error';
      code: ErrorCode;
      message: string;
      retryable: boolean;
      retry_after_ms?: number;
      resets_at?: string;
    }
);

/** How a fault is told to a client. */
export function errorMessage(error: PartylineError): ServerMessage {
  const { code, message, kind, retryAfterMs, resetsAt } = error;
  const retryAfter = retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs };
  const resets = resetsAt === undefined ? {} : { resets_at: resetsAt };
  return { type: 'error', code, message, retryable: kind.retryable, ...retryAfter, ...resets };
}
