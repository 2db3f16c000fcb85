import { type Static, type TObject, type TSchema, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { PartylineError } from './errors.ts';
import { boolean, string } from './fields.ts';
import { type MessageId, messageId } from './messages.ts';
import { describeFaults } from './schema-faults.ts';
import {
  DtlsParametersSchema,
  RtpCapabilitiesSchema,
  RtpParametersSchema,
} from './webrtc-parameters.ts';

/**
 * Schemas of the text messages that a client may send on `/ws`, and their parser. The tables of docs/protocol.md (§9) are
 * made from the descriptions (`npm run docs`).
 */

const id = Type.Optional(messageId);

const MAX_ID_CHARACTERS = 128;

/** Id of something that the gateway has made. */
const reference = (description: string) =>
  Type.String({ minLength: 1, maxLength: 128, description });

const transportId = reference('id of the transport, from `joined`');
const producerId = reference('id of the producer, from `produced`');

/** A message; `description` says what the client asks for. */
const clientMessage = <const Name extends string, T extends Record<string, TSchema>>(
  type: Name,
  description: string,
  fields: T,
) => Type.Object({ type: Type.Literal(type), id, ...fields }, { description });

export const CLIENT_MESSAGES = {
  join: clientMessage('join', 'Enter a room, or change how the client is connected (§3).', {
    room: string('name of the room'),
    media: Type.Optional(
      Type.Literal('webrtc', {
        description: 'to send and hear over WebRTC; absent for the WebSocket',
      }),
    ),
    rtp_capabilities: Type.Optional(RtpCapabilitiesSchema),
  }),
  leave: clientMessage('leave', 'Leave the room.', {}),
  configure: clientMessage('configure', 'Change the settings that it names.', {
    audio: Type.Optional(string('format in which the client sends from now on, as in the query')),
    audio_out: Type.Optional(string('format in which it hears, as in the query')),
    delivery: Type.Optional(
      Type.Enum(['mix', 'forward'], { description: 'as in the query ("Delivery")' }),
    ),
    // TypeBox checks only the pattern of a record's key, and checks no value under a name that
    // does not match.
    volume: Type.Optional(
      Type.Record(Type.String({ pattern: '^[^]*$' }), Type.Number({ minimum: 0, maximum: 4 }), {
        description: 'how loud peers are heard, by name; a peer that is not named keeps its volume',
        maxProperties: 1000,
        // No peer has a control character or a lone surrogate in its name; JSON writes each in six
        // characters, and slowly.
        propertyNames: Type.String({
          minLength: 1,
          maxLength: 512,
          pattern: String.raw`^[^\p{Cc}\p{Cs}]*$`,
        }),
      }),
    ),
    mute: Type.Optional(boolean('whether nothing that the client sends is to be heard')),
  }),
  connect_transport: clientMessage('connect_transport', 'Connect a transport.', {
    transport_id: transportId,
    dtls_parameters: DtlsParametersSchema,
  }),
  produce: clientMessage('produce', 'Send audio.', {
    transport_id: transportId,
    kind: Type.Literal('audio', { description: 'the kind of media' }),
    rtp_parameters: RtpParametersSchema,
  }),
  pause_producer: clientMessage('pause_producer', 'Mute the browser.', { producer_id: producerId }),
  resume_producer: clientMessage('resume_producer', 'Unmute the browser.', {
    producer_id: producerId,
  }),
  resume_consumer: clientMessage('resume_consumer', 'Hear the audio of a consumer.', {
    consumer_id: reference('id of the consumer, from `new_consumer` or `joined`'),
  }),
  restart_ice: clientMessage('restart_ice', 'Get new ICE parameters for a transport.', {
    transport_id: transportId,
  }),
} satisfies Record<string, TObject>;

type ClientMessageType = keyof typeof CLIENT_MESSAGES;
export type ClientMessages = { [T in ClientMessageType]: Static<(typeof CLIENT_MESSAGES)[T]> };
export type ClientMessage = ClientMessages[ClientMessageType];

const envelope = Compile(Type.Object({ type: Type.String(), id }));
const identified = Compile(Type.Object({ id: messageId }));
const validators = new Map(
  Object.entries(CLIENT_MESSAGES).map(([type, schema]) => [type, Compile(schema)] as const),
);
const isClientMessage = (type: string, message: unknown): message is ClientMessage =>
  validators.get(type)?.Check(message) ?? false;

/** Fault of a text frame that is not a valid message; carries the client's `id`, if it could be read. */
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
      'A message is a JSON object with a string "type", and optionally an "id", a string or a number.',
      readId(message),
    );
  }
  const { type } = message;
  if (!isExact(message.id)) {
    throw new MessageError(
      '"id" is beyond the integers that JSON carries exactly (±(2^53 - 1)); send it as a string.',
    );
  }
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

/** Returns whether an answer can carry an `id` as it came: a large integer would be rounded. */
const isExact = (value: MessageId | undefined): boolean =>
  !Number.isInteger(value) || Number.isSafeInteger(value);

/** Returns the `id` of JSON that is no valid message, as the `error` repeats it; undefined if it has none, or one that would be rounded. */
function readId(message: unknown): MessageId | undefined {
  if (!identified.Check(message) || !isExact(message.id)) return undefined;
  return typeof message.id === 'string' ? cutId(message.id) : message.id;
}

/** Shortens an `id` to the length that an answer carries. */
function cutId(whole: string): string {
  if (whole.length <= MAX_ID_CHARACTERS) return whole;
  // No character has more than two UTF-16 units.
  const characters = Array.from(whole.slice(0, 2 * MAX_ID_CHARACTERS));
  return characters.slice(0, MAX_ID_CHARACTERS).join('');
}
