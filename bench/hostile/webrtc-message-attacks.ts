import { PLANS } from '../../src/accounts/plans.ts';
import type { MessageAttack, Told } from './attack.ts';
import { json, repeat } from './messages.ts';
import { SPEAKERS } from './talk.ts';

/** Attacks by messages about WebRTC, over `/ws`. */

const FREE_CLIENTS = PLANS.free.maxCcu;
const TURNS_PER_SECOND = 20;
/** Turns for which a browser that never connects stays in the room: 2 s. */
const STAYS_FOR_TURNS = 2 * TURNS_PER_SECOND;
/** Clients of a pro account beside those that talk. */
const MOST_BESIDE_SPEAKERS = PLANS.pro.maxCcu - SPEAKERS.length;

const JOIN = { type: 'join', room: 'attacked', media: 'webrtc' };

/** Sends a message about the client's own WebRTC transport, once there is one. */
function* ofTransport(told: Told, make: (id: string, n: number) => object) {
  yield json(JOIN);
  for (let n = 0; ; n += 1) {
    const id = told.joined?.webrtc?.send_transport.id;
    yield id === undefined ? undefined : json(make(id, n));
  }
}

/** Sends a request, and again after each error, until it has taken effect. */
function* ask(told: Told, request: object, isDone: () => boolean) {
  while (!isDone()) {
    const { refused } = told;
    yield json({ ...request, id: 'asked' });
    while (!isDone() && told.refused === refused) yield undefined;
  }
}

/** Joins repeatedly; after each `joined`, sends one valid message about its transport. */
function* ofEachJoin(told: Told, make: (id: string, n: number) => object) {
  for (let n = 0; ; n += 1) {
    const last = told.joined;
    yield* ask(told, JOIN, () => told.joined !== last);
    yield json(make(told.joined?.webrtc?.send_transport.id ?? '', n));
  }
}

/** Pauses and resumes the client's own producer, without end. */
function* ofProducer(told: Told) {
  yield* ask(told, JOIN, () => told.joined !== undefined);
  const transportId = told.joined?.webrtc?.send_transport.id ?? '';
  yield* ask(told, produce(transportId, 0), () => told.producerId !== undefined);
  const producer_id = told.producerId;
  yield* repeat(
    json({ type: 'pause_producer', producer_id }),
    json({ type: 'resume_producer', producer_id }),
  );
}

/** Resumes one of the consumers that the client was offered. */
function* ofConsumer(told: Told) {
  yield* ask(told, JOIN, () => told.joined !== undefined);
  while (told.consumerId === undefined) yield undefined;
  yield* repeat(json({ type: 'resume_consumer', consumer_id: told.consumerId }));
}

/** Joins, produces, and stays without connecting a transport; then leaves, and does so again. */
function* produceUnconnected(told: Told) {
  for (;;) {
    const { joined, producerId } = told;
    yield* ask(told, JOIN, () => told.joined !== joined);
    const transportId = told.joined?.webrtc?.send_transport.id ?? '';
    yield* ask(told, produce(transportId, 0), () => told.producerId !== producerId);
    yield* Array<undefined>(STAYS_FOR_TURNS).fill(undefined);
    yield json({ type: 'leave' });
  }
}

const produce = (transport_id: string, n: number) => ({
  type: 'produce',
  transport_id,
  kind: 'audio',
  rtp_parameters: {
    codecs: [{ mimeType: 'audio/opus', payloadType: 111, clockRate: 48_000, channels: 2 }],
    encodings: [{ ssrc: 1000 + n }],
  },
});

const connectTransport = (told: Told, transport_id: string) => ({
  type: 'connect_transport',
  transport_id,
  dtls_parameters: told.joined?.webrtc?.send_transport.dtls_parameters,
});

export const WEBRTC_MESSAGE_ATTACKS: MessageAttack[] = [
  {
    name: '`join` with WebRTC, again and again',
    messages: () => repeat(json(JOIN)),
  },
  { name: '`produce` without end', messages: (told) => ofTransport(told, produce) },
  {
    name: '`restart_ice` without pause',
    messages: (told) =>
      ofTransport(told, (transport_id) => ({ type: 'restart_ice', transport_id })),
  },
  {
    name: '`connect_transport` without pause',
    messages: (told) => ofTransport(told, (id) => connectTransport(told, id)),
  },
  {
    name: '`join` with WebRTC and `produce` in turn, each accepted',
    messages: (told) => ofEachJoin(told, produce),
    hasNoFloor: true,
  },
  {
    name: '`join` with WebRTC and `connect_transport` in turn, each accepted',
    messages: (told) => ofEachJoin(told, (id) => connectTransport(told, id)),
    hasNoFloor: true,
  },
  {
    name: '`pause_producer` and `resume_producer` of its own',
    messages: ofProducer,
    hasNoFloor: true,
  },
  {
    name: '`resume_consumer` of its own',
    messages: ofConsumer,
    speakers: SPEAKERS,
    mostClients: MOST_BESIDE_SPEAKERS,
    hasNoFloor: true,
  },
  {
    name: 'browsers that `produce` and never connect a transport, as many as the plan allows',
    messages: produceUnconnected,
    perSecond: TURNS_PER_SECOND,
    fewestClients: FREE_CLIENTS,
    hasNoFloor: true,
  },
];
