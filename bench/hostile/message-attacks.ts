import { randomBytes } from 'node:crypto';
import { flacFrame } from '../../test/support/flac-frames.ts';
import type { MessageAttack } from './attack.ts';
import { collidingMessages } from './colliding-messages.ts';
import { json, numbered, repeat } from './messages.ts';
import { SPEAKERS } from './talk.ts';

/** Attacks by messages: what a client with a valid key can send over `/ws`. */

const PCM = 'pcm_s16le;rate=44100;channels=1';
const IN_ROOM = { room: 'attacked' };

/** An EBML header, an open segment and an audio track, as a recorder begins. */
const WEBM_START = Buffer.from(
  '1a45dfa3874282847765626d1853806701ffffffffffffff1549a96687' +
    '2ad7b1830f42401654ae6b94ae92d7810173c58101838102868641' +
    '5f4f505553',
  'hex',
);
/** The head of a Void element of 240 KB. */
const WEBM_VOID = Buffer.from([0xec, 0x23, 0xa9, 0x80]);
/** A cluster that says that it has 2^47 bytes, again and again. */
const WEBM_CLUSTERS = Buffer.concat(
  Array<Buffer>(1000).fill(Buffer.from('1f43b67501800000000000', 'hex')),
);
/** Six bytes that begin an Ogg stream. */
const OGG_START = Buffer.from([0x4f, 0x67, 0x67, 0x53, 0, 2]);

function* webmByteByByte() {
  yield WEBM_START;
  yield WEBM_VOID;
  yield* repeat(Buffer.from([0]));
}

function* webmClusters() {
  yield WEBM_START;
  yield* repeat(WEBM_CLUSTERS);
}

/** An Opus packet of 20 ms with padding up to 64 KiB (RFC 6716 §3.2.5). */
const PADDED_OPUS = Buffer.concat([
  Buffer.from([0xfb, 0x41, ...Array<number>(256).fill(255), 0]),
  randomBytes(65_536 - 259),
]);
/** Silence of 2.5 ms. */
const SHORT_OPUS = Buffer.from([0xe0, 0xff, 0xfe]);

/** Speech of 120 ms in five bytes: two frames of SILK of 60 ms each. */
const LONG_OPUS = Buffer.from([0x19, 0x10, 0x22, 0x10, 0x22]);

/** FLAC frames of a constant value, which each state their rate in their head: many at 65,535 Hz, and a last one at 4000 Hz. */
const FLAC_OF_TWO_RATES = Buffer.concat([
  ...Array.from({ length: 600 }, (_, i) => flacFrame(i % 128, 192, 65_535)),
  flacFrame(0, 192, 4000),
]);

/** Maximum payload of a ping (RFC 6455 §5.5). */
const MAX_PING_BYTES = 125;

const DEEP = `${'['.repeat(32_000)}${']'.repeat(32_000)}`;

/** Number of peers that hear the padded packets. With the attacker they are more than a free account may have. */
const LISTENERS = 5;
/** Number of clients whose packets these peers, all in one process of the load, can take. */
const MOST_WITH_LISTENERS = 50;
/** Formats that are heard, each of which needs another mix. */
const FORMATS_OUT = ['pcm_s16le;rate=44100;channels=1', 'opus', 'pcmu', 'g722'];
/** Number of clients that hear two speakers: more than there are mixes for a single listener. */
const MOST_OWN_MIXES = 50;
/** Returns volumes that need a mix for a single listener, different from those before. */
const volumesOf = (n: number) => ({ ada: ((n % 10) + 1) / 20, bob: ((n % 7) + 1) / 10 });

export const MESSAGE_ATTACKS: MessageAttack[] = [
  {
    name: '`configure` of the format without pause',
    query: IN_ROOM,
    messages: () => repeat(json({ type: 'configure', audio: PCM })),
  },
  {
    name: '`configure` of the volume without pause',
    query: IN_ROOM,
    messages: () => numbered((n) => json({ type: 'configure', volume: { nobody: n % 2 } })),
  },
  {
    name: '`configure` of the volumes of two that talk, without pause',
    query: { ...IN_ROOM, audio_out: 'opus' },
    messages: () => numbered((n) => json({ type: 'configure', volume: volumesOf(n) })),
    speakers: SPEAKERS,
    mostClients: MOST_OWN_MIXES,
  },
  {
    name: '`configure` of `audio_out` without pause, while two talk',
    query: { ...IN_ROOM, audio_out: 'opus' },
    messages: () =>
      repeat(...FORMATS_OUT.map((out) => json({ type: 'configure', audio_out: out }))),
    speakers: SPEAKERS,
    mostClients: MOST_OWN_MIXES,
  },
  {
    name: '`configure` of `delivery` without pause, while two talk',
    query: { ...IN_ROOM, audio_out: 'opus' },
    messages: () =>
      repeat(...['forward', 'mix'].map((delivery) => json({ type: 'configure', delivery }))),
    speakers: SPEAKERS,
    mostClients: MOST_OWN_MIXES,
  },
  {
    name: '`configure` of the mute without pause',
    query: IN_ROOM,
    messages: () => numbered((n) => json({ type: 'configure', mute: n % 2 === 0 })),
  },
  {
    name: '`webm_opus`: an element of 240 KB in messages of one byte',
    query: { ...IN_ROOM, audio: 'webm_opus' },
    messages: webmByteByByte,
  },
  {
    name: '`webm_opus`: clusters that never end',
    query: { ...IN_ROOM, audio: 'webm_opus' },
    messages: webmClusters,
  },
  {
    name: '`ogg_opus`: messages of six bytes that each begin a recording',
    query: { ...IN_ROOM, audio: 'ogg_opus' },
    messages: () => repeat(OGG_START),
  },
  {
    name: '`join` of the room in which it is',
    query: IN_ROOM,
    messages: () => repeat(json({ type: 'join', room: 'attacked' })),
  },
  {
    name: '`join` of ever new rooms',
    messages: () => numbered((n) => json({ type: 'join', room: `r${n}` })),
  },
  {
    name: '`join` of ever new rooms, 20 times a second, with a webhook that takes requests and answers none',
    messages: () => numbered((n) => json({ type: 'join', room: `r${n}` })),
    perSecond: 20,
    hasHangingWebhook: true,
  },
  {
    name: '`join` of two rooms in turn',
    messages: () => numbered((n) => json({ type: 'join', room: `r${n % 2}` })),
  },
  {
    name: '`join` and `leave` in turn',
    messages: () => repeat(json({ type: 'join', room: 'attacked' }), json({ type: 'leave' })),
  },
  {
    name: '`pause_producer` and `resume_producer` of nobody',
    query: IN_ROOM,
    messages: () =>
      numbered((n) =>
        json({ type: n % 2 ? 'pause_producer' : 'resume_producer', producer_id: 'nobody' }),
      ),
  },
  {
    name: '`resume_consumer` of nobody',
    query: IN_ROOM,
    messages: () => repeat(json({ type: 'resume_consumer', consumer_id: 'nobody' })),
  },
  { name: 'unknown messages', messages: () => repeat(json({ type: 'dance' })) },
  { name: 'malformed JSON', messages: () => repeat('{"type":') },
  {
    name: 'JSON that is 32,000 arrays deep',
    messages: () => repeat(`{"type":"join","room":${DEEP}}`),
  },
  {
    name: 'Opus packets padded to 64 KB, 50 a second',
    query: { ...IN_ROOM, audio: 'opus' },
    messages: () => repeat(PADDED_OPUS),
    perSecond: 50,
  },
  {
    name: `Opus packets padded to 64 KB, 50 a second, to ${LISTENERS} listeners`,
    query: { ...IN_ROOM, audio: 'opus' },
    messages: () => repeat(PADDED_OPUS),
    perSecond: 50,
    listeners: LISTENERS,
    leastPlan: 'starter',
    mostClients: MOST_WITH_LISTENERS,
  },
  {
    name: 'Opus packets of 2.5 ms without pause',
    query: { ...IN_ROOM, audio: 'opus' },
    messages: () => repeat(SHORT_OPUS),
  },
  {
    name: 'Opus packets of 120 ms in 5 bytes without pause',
    query: { ...IN_ROOM, audio: 'opus' },
    messages: () => repeat(LONG_OPUS),
  },
  {
    name: '`flac`: frames of two rates in each message, without pause',
    query: { ...IN_ROOM, audio: 'flac' },
    messages: () => repeat(FLAC_OF_TWO_RATES),
  },
  {
    name: 'PCM without pause',
    query: { ...IN_ROOM, audio: PCM },
    messages: () => repeat(Buffer.alloc(65_536, 1)),
  },
  {
    name: 'PCM in messages of one byte',
    query: { ...IN_ROOM, audio: PCM },
    messages: () => repeat(Buffer.alloc(1)),
  },
  {
    name: 'bytes whose hashes collide, and `configure` of `auto`, ten times a second',
    query: { ...IN_ROOM, audio: 'auto' },
    messages: () => repeat(...collidingMessages(), json({ type: 'configure', audio: 'auto' })),
    perSecond: 40,
  },
  {
    name: 'messages of 64 KB of an unknown format, without pause',
    query: { ...IN_ROOM, audio: 'opaque' },
    messages: () => repeat(Buffer.alloc(65_536, 1)),
  },
  {
    name: 'messages of one byte of an unknown format, without pause',
    query: { ...IN_ROOM, audio: 'opaque' },
    messages: () => repeat(Buffer.alloc(1)),
  },
  {
    name: 'random bytes without a format',
    query: { ...IN_ROOM, audio: 'auto' },
    messages: () => numbered(() => randomBytes(16_384)),
  },
  {
    name: 'pings without pause',
    query: IN_ROOM,
    messages: () => repeat(Buffer.alloc(MAX_PING_BYTES)),
    asPings: true,
    provokes: 'rate_limited',
  },
  { name: 'connects and goes', messages: () => repeat(undefined), reconnectAfter: 1 },
  {
    name: 'connects with a wrong key, again and again',
    query: { api_key: 'pl_wrong' },
    messages: () => repeat(undefined),
    reconnectAfter: 1,
    provokes: '4401',
  },
  {
    name: 'connects, joins and goes',
    messages: () => numbered((n) => json({ type: 'join', room: `r${n}` })),
    reconnectAfter: 1,
  },
  {
    name: 'replaces itself',
    messages: () => repeat(undefined),
    reconnectAfter: 1,
    isOneName: true,
    provokes: '4409',
  },
];
