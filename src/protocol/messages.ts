import { type Static, type TSchema, Type } from 'typebox';
import { CLOSE_CODES, type ErrorCode } from './close-codes.ts';
import type { PartylineError } from './errors.ts';
import { boolean, exactly, gains, integer, number, string } from './fields.ts';
import {
  consumerDescription,
  ConsumerDescriptionSchema,
  iceParameters,
  iceServers,
  WebRtcDescriptionSchema,
} from './webrtc-descriptions.ts';

/**
 * Text frames that the gateway sends on `/ws`, as schemas: types here, checks in tests. The tables of docs/protocol.md (§9)
 * are made from the descriptions (`npm run docs`).
 */

export const messageId = Type.Union([Type.String(), Type.Number()]);

/** Name that a client gives one of its messages; the answer carries it, cut to 128 characters. */
export type MessageId = Static<typeof messageId>;

/** A message; `reply_to` is the `id` of the message that it answers. `description` says when it is sent. */
const message = <const Name extends string, T extends Record<string, TSchema>>(
  type: Name,
  description: string,
  fields: T,
) =>
  exactly(
    { type: Type.Literal(type), reply_to: Type.Optional(messageId), ...fields },
    { description },
  );

const peerKind = Type.Enum(['websocket', 'webrtc'], { description: 'how the peer is connected' });
export type PeerKind = Static<typeof peerKind>;

const peer = string('name of the peer');
const speaker = integer('number in the header of its frames with `delivery=forward`');
const muted = boolean(
  'whether the peer is muted; a browser whose producer is paused counts as muted',
);

const peerDescription = { peer, kind: peerKind, speaker, muted };
const PeerDescriptionSchema = exactly(peerDescription);
export type PeerDescription = Static<typeof PeerDescriptionSchema>;

const SpeakingPeerSchema = exactly({
  peer,
  level_dbov: Type.Optional(
    number('level, dBov: 0 is the loudest; absent for a peer whose format is unknown'),
  ),
});
export type SpeakingPeer = Static<typeof SpeakingPeerSchema>;

const errorCode = Type.Unsafe<ErrorCode>(
  Type.Enum(Object.keys(CLOSE_CODES), {
    description: 'code of the error, from the table in §2 ("Errors on the WebSocket")',
  }),
);

/** Reason for which a peer left a room or was removed from it. */
export type LeaveReason = 'left' | 'moved' | 'closed' | 'replaced' | ErrorCode;
const leaveReason = (description: string) =>
  Type.Unsafe<LeaveReason>(
    Type.Enum(['left', 'moved', 'closed', ...Object.keys(CLOSE_CODES)], { description }),
  );

/** Formats of a client's binary frames in both directions. */
const AudioDescriptionSchema = exactly({
  in: string('format in which the client sends; `auto` until it has been detected'),
  out: string('format in which it hears'),
  delivery: Type.Enum(['mix', 'forward'], { description: 'as in the query ("Delivery")' }),
});
export type AudioDescription = Static<typeof AudioDescriptionSchema>;

const volume = gains('volumes by peer; a peer that is not named has 1');
const mute = boolean('whether the client is muted');
const notApplied = gains('those volumes that do not apply at present');

/** Audio settings of a client, as sent to it. */
const settings = {
  audio: AudioDescriptionSchema,
  volume,
  mute,
  not_applied: Type.Optional(notApplied),
};
const SettingsDescriptionSchema = exactly(settings);
export type SettingsDescription = Static<typeof SettingsDescriptionSchema>;

/** Statistics of a client's audio since it connected. */
const stats = {
  ingest_ms: number('received audio that waits for its time'),
  drift_ppm: number("deviation of the client's clock from the gateway's; positive if it is faster"),
  dropped_ms: number('audio dropped since the client connected, in both directions'),
  concealed_ms: number(
    'audio in place of lost or late packets in what the client was sent; pauses of a sender do not count',
  ),
  send_queue_ms: number('audio that waits for the client to read ("Never stale")'),
  rtt_ms: Type.Optional(number('round trip of the last ping, once one is answered')),
};
const StatsSchema = exactly(stats);
export type Stats = Static<typeof StatsSchema>;

const transportId = string('id of the transport');
const producerId = string('id of the producer');
const consumerId = string('id of the consumer');

export const SERVER_MESSAGES = {
  welcome: message('welcome', 'The client is connected.', {
    peer: string('name of the client'),
    room: string('room in which it is; `__lobby__` at first'),
    session_id: string('id of the session, for the query of the next connection (§6)'),
    resume_token: string("proof, for the same query, that the session is the client's own"),
    resumed: Type.Optional(
      Type.Literal(true, { description: 'the session is the one of the connection before' }),
    ),
    audio: AudioDescriptionSchema,
    volume: Type.Optional(gains('only with `resumed`: volumes that still apply')),
    mute: Type.Optional(boolean('only with `resumed`: whether the client is still muted')),
    not_applied: Type.Optional(gains('only with `resumed`: as in `configured`')),
    limits: exactly({
      max_ccu: integer('connections that the account may have at once'),
      current_ccu: integer('those that are open now, this one among them'),
      remaining_minutes: number('minutes that the account has left this month'),
    }),
    heartbeat_ms: number('time between two pings of the gateway ("Keep-alive")'),
    network: string(
      "network of the client's address as the gateway sees it: the /24 of an IPv4 address (`203.0.113.0/24`) or the /64 of an IPv6 address (`2001:db8:1:2::/64`)",
    ),
    resume_ms: number(
      'time for which the place of a client is kept after its connection is lost (§6)',
    ),
  }),
  joined: message('joined', 'The client is in the room: the answer to `join`.', {
    room: string('name of the room'),
    speaker: integer('speaker number of the client ("Delivery")'),
    peers: Type.Array(PeerDescriptionSchema, { description: 'the other peers in the room' }),
    webrtc: Type.Optional(WebRtcDescriptionSchema),
    consumers: Type.Optional(
      Type.Array(ConsumerDescriptionSchema, {
        description:
          'to a browser that resumed, in place of `webrtc`: all that it hears, each with the fields of `new_consumer`',
      }),
    ),
  }),
  left: message('left', 'The client has left the room: the answer to `leave`, or after an error.', {
    room: string('name of the room'),
    reason: leaveReason('`left`, or the code of the error that took the client out'),
  }),
  peer_joined: message('peer_joined', 'A peer has come into the room.', peerDescription),
  peer_changed: message(
    'peer_changed',
    'A peer is now muted or no longer (with `muted`), or is connected in the other way (with `kind` and `speaker`).',
    {
      peer,
      muted: Type.Optional(muted),
      kind: Type.Optional(peerKind),
      speaker: Type.Optional(speaker),
    },
  ),
  peer_left: message('peer_left', 'A peer has left the room.', {
    peer,
    speaker,
    reason: leaveReason('`left`, `moved`, `closed`, or the code of the error that ended it'),
  }),
  speaking: message(
    'speaking',
    'The peers that speak have changed; sent at most 4 times a second.',
    {
      peers: Type.Array(SpeakingPeerSchema, {
        description: 'all that speak now, the client itself among them',
      }),
    },
  ),
  configured: message(
    'configured',
    'The settings of the client: the answer to `configure`, or after a change that it did not ask for.',
    settings,
  ),
  stats: message('stats', 'Every 5 s, with `stats=true` in the query.', stats),
  draining: message(
    'draining',
    'This node goes away, and closes with 1012. Connect again (§6) before it does.',
    {
      deadline_ms: number('time within which the node closes the connection'),
    },
  ),
  quota_warning: message(
    'quota_warning',
    "20 % or 5 % of the month's minutes are left, or 1 minute.",
    {
      remaining_minutes: number('minutes that are left'),
      resets_at: string('time at which the account has minutes again (ISO 8601)'),
    },
  ),
  flow: message('flow', "The client's audio is ahead of real time, or no longer.", {
    state: Type.Enum(['xoff', 'xon'], { description: '`xoff`: it is ahead; `xon`: no longer' }),
    buffered_ms: number('time by which the audio is ahead'),
    dropped_ms: number('audio dropped for being ahead, since the client joined the room'),
  }),
  audio_detected: message(
    'audio_detected',
    'The gateway has detected the format of an undeclared sender, or the samples in a `wav`.',
    { in: string('that format'), out: string('format in which the client hears from now on') },
  ),
  audio_unknown: message(
    'audio_unknown',
    'An undeclared sender sends none of the formats that the gateway knows; sent once, and again only after an `audio_detected`.',
    {
      relayed: boolean(
        'always `true`: its messages go to the clients that can be sent them ("Unknown formats")',
      ),
    },
  ),
  format_mismatch: message(
    'format_mismatch',
    'The bytes contradict the declared format; they are still taken as declared.',
    {
      declared: string('the declared format'),
      observed: string('the format that they look like'),
      confidence: number('how sure that is, 0…1'),
    },
  ),
  transport_connected: message('transport_connected', 'The answer to `connect_transport`.', {
    transport_id: transportId,
  }),
  produced: message('produced', 'The browser sends audio: the answer to `produce`.', {
    producer_id: producerId,
  }),
  producer_paused: message('producer_paused', 'The answer to `pause_producer`.', {
    producer_id: producerId,
  }),
  producer_resumed: message('producer_resumed', 'The answer to `resume_producer`.', {
    producer_id: producerId,
  }),
  new_consumer: message(
    'new_consumer',
    'To browsers: there is audio of another peer. It is paused until `resume_consumer`.',
    consumerDescription,
  ),
  consumer_resumed: message(
    'consumer_resumed',
    'The browser is sent the audio of a consumer: the answer to `resume_consumer`.',
    { consumer_id: consumerId },
  ),
  consumer_closed: message('consumer_closed', 'To browsers: a consumer has ended.', {
    consumer_id: consumerId,
  }),
  ice_restarted: message(
    'ice_restarted',
    'A transport has new ICE parameters: the answer to `restart_ice`.',
    { transport_id: transportId, ice_parameters: iceParameters, ice_servers: iceServers },
  ),
  media_changed: message(
    'media_changed',
    'The client is now connected in the other way ("One peer, two ways", §3).',
    { kind: peerKind, volume, mute },
  ),
  rtp_flow: message('rtp_flow', 'To browsers: RTP of the producer has stopped, or comes again.', {
    state: Type.Enum(['stopped', 'flowing'], {
      description:
        '`stopped`: no packet of the producer has come for a second, or none ever; `flowing`: packets come again',
    }),
  }),
  media_restarted: message(
    'media_restarted',
    'To browsers: the media worker died, and the room has another. The transports are gone: `join` the room again.',
    {},
  ),
  error: message(
    'error',
    'A refusal, a failure or a warning, or the reason for the close that follows.',
    {
      code: errorCode,
      message: string('description of the error for people'),
      retryable: boolean('whether the client may try the same again'),
      retry_after_ms: Type.Optional(integer('time after which it may')),
      resets_at: Type.Optional(string('time at which the account has minutes again (ISO 8601)')),
    },
  ),
};

type ServerMessages = { [T in keyof typeof SERVER_MESSAGES]: Static<(typeof SERVER_MESSAGES)[T]> };

/** A text frame that the gateway sends. */
export type ServerMessage = ServerMessages[keyof ServerMessages];

/** Returns the message that reports a fault to a client. */
export function errorMessage(error: PartylineError, replyTo?: MessageId): ServerMessage {
  const { code, message: sentence, kind, retryAfterMs, resetsAt } = error;
  const retryAfter = retryAfterMs === undefined ? {} : { retry_after_ms: retryAfterMs };
  const resets = resetsAt === undefined ? {} : { resets_at: resetsAt };
  const reply = replyTo === undefined ? {} : { reply_to: replyTo };
  const { retryable } = kind;
  return { type: 'error', code, message: sentence, retryable, ...retryAfter, ...resets, ...reply };
}
