import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';

/** Messages of the gateway that the canary reads (docs/protocol.md §2 and §3), with only the fields that it uses. */

const TransportSchema = Type.Object({
  id: Type.String(),
  ice_parameters: Type.Object({ usernameFragment: Type.String(), password: Type.String() }),
  ice_candidates: Type.Array(
    Type.Object({
      foundation: Type.String(),
      priority: Type.Number(),
      address: Type.Optional(Type.String()),
      ip: Type.Optional(Type.String()),
      protocol: Type.Enum(['udp', 'tcp']),
      port: Type.Integer(),
      type: Type.String(),
      tcpType: Type.Optional(Type.String()),
    }),
  ),
  dtls_parameters: Type.Object({
    fingerprints: Type.Array(Type.Object({ algorithm: Type.String(), value: Type.String() })),
  }),
  ice_servers: Type.Optional(
    Type.Array(
      Type.Object({
        urls: Type.Union([Type.String(), Type.Array(Type.String())]),
        username: Type.Optional(Type.String()),
        credential: Type.Optional(Type.String()),
      }),
    ),
  ),
});
export type TransportDescription = Static<typeof TransportSchema>;

const common = { reply_to: Type.Optional(Type.Union([Type.String(), Type.Number()])) };

const MessageSchema = Type.Union([
  Type.Object({ ...common, type: Type.Literal('welcome') }),
  Type.Object({
    ...common,
    type: Type.Literal('joined'),
    webrtc: Type.Optional(
      Type.Object({ send_transport: TransportSchema, recv_transport: TransportSchema }),
    ),
  }),
  Type.Object({
    ...common,
    type: Type.Enum(['transport_connected', 'produced', 'consumer_resumed']),
  }),
  Type.Object({
    ...common,
    type: Type.Literal('new_consumer'),
    consumer_id: Type.String(),
    peer: Type.String(),
    rtp_parameters: Type.Object({
      encodings: Type.Array(Type.Object({ ssrc: Type.Integer() }), { minItems: 1 }),
    }),
  }),
  Type.Object({
    ...common,
    type: Type.Literal('error'),
    code: Type.String(),
    message: Type.String(),
  }),
]);
export type Message = Static<typeof MessageSchema>;
export type MessageOf<T extends Message['type']> = Extract<Message, { type: T }>;

const messages = Compile(MessageSchema);

/** Reads a text frame; undefined if the canary does not use the message. */
export function readMessage(text: string): Message | undefined {
  const value: unknown = JSON.parse(text);
  return messages.Check(value) ? value : undefined;
}
