import { crc32 } from 'node:zlib';
import type { TimedMessage } from '../../src/audio/ingest/detection/pace.ts';
import {
  formatAudioFormat,
  type InputFormat,
  type SampleCodec,
  type SampleFormat,
} from '../../src/audio/format.ts';
import { frameBytesOf, openSampleWriter } from '../../src/audio/samples.ts';
import { MAX_MESSAGE_BYTES, soundOf, stereoOf } from './corpus.ts';
import { readFixture } from './fixtures.ts';
import { imaAdpcm } from './ima-adpcm.ts';
import { type Random, seededRandom } from './random.ts';
import { encodeOpus } from './sound.ts';
import { wavFile } from './wav.ts';

/**
 * Streams of undeclared clients beside the formats of `corpus.ts`: other formats of sound, and data that is no sound
 * at all.
 */

/** Bytes at their pace, which clients cut where a frame ends, if there are frames, and else anywhere; or messages. */
type Stream =
  | { bytes: Buffer; bytesPerMs: number; frameBytes?: number }
  | { messages: Buffer[]; messageMs: number };
type Make = (
  content: Content,
  durationMs: number,
  messageMs: number,
  random: Random,
) => Stream | Promise<Stream>;

const UNKNOWN_CONTENTS = ['speech', 'music'] as const;
type Content = (typeof UNKNOWN_CONTENTS)[number];
/** As long as a client may wait before it sends. */
const MESSAGE_LENGTHS_MS = [10, 20, 40, 60, 100, 250, 500, 1000];

/** Speech and music with digital silence: a second of the one in every three seconds of the other. */
function pausing(
  content: Content,
  rateHz: number,
  durationMs: number,
  random: Random,
): Float32Array {
  const sound = soundOf(content, rateHz, durationMs, random);
  if (random() < 0.5) return sound;
  const fromMs = random() * durationMs;
  const from = Math.round((fromMs * rateHz) / 1000);
  sound.fill(0, from, from + Math.round(rateHz * 0.3));
  return sound;
}

const samples =
  (codec: SampleCodec, rateHz: number, channels: number): Make =>
  (content, durationMs, _messageMs, random) => {
    const mono = pausing(content, rateHz, durationMs, random);
    const sound = channels === 2 ? stereoOf(mono, random) : mono;
    const bytes = openSampleWriter(codec)(sound);
    return {
      bytes,
      bytesPerMs: bytes.length / durationMs,
      frameBytes: frameBytesOf({ codec, channels }),
    };
  };

/** A WAVE file of samples. */
const wav: Make = (content, durationMs, _messageMs, random) => {
  const rateHz = RAW_RATES_HZ[Math.floor(random() * RAW_RATES_HZ.length)]!;
  const codec = WAV_CODECS[Math.floor(random() * WAV_CODECS.length)]!;
  const format = { codec, rateHz, channels: random() < 0.5 ? 1 : 2 };
  const mono = pausing(content, rateHz, durationMs, random);
  const sound = openSampleWriter(codec)(format.channels === 2 ? stereoOf(mono, random) : mono);
  const bytes = wavFile(format, sound);
  return { bytes, bytesPerMs: bytes.length / durationMs };
};
const WAV_CODECS = ['pcm_u8', 'pcm_s16le', 'pcm_s24le', 'pcm_s32le'] as const;

/** A recording of each content, from its beginning on, or from anywhere. @param ending the end of the names of their files */
const recording =
  (ending: string, isCutIn: boolean): Make =>
  (content, durationMs, _messageMs, random) => {
    const file = readFixture(`${content}${ending}`);
    const bytesPerMs = file.length / RECORDING_MS;
    const whole = Buffer.concat(Array<Buffer>(1 + Math.ceil(durationMs / RECORDING_MS)).fill(file));
    const from = isCutIn && random() < 0.5 ? Math.floor(random() * file.length) : 0;
    return { bytes: whole.subarray(from, from + durationMs * bytesPerMs), bytesPerMs };
  };
const RECORDING_MS = 2600;

const randomBytes = (length: number, random: Random) =>
  Buffer.from(Uint8Array.from({ length }, () => Math.floor(random() * 256)));

const bytesAt =
  (bytesPerMs: number, make: (length: number, random: Random) => Buffer): Make =>
  (_content, durationMs, _messageMs, random) => ({
    bytes: make(Math.round(bytesPerMs * durationMs), random),
    bytesPerMs,
  });

/** A message of its own every `messageMs`, of about `bytesPerMs` bytes a ms. */
const packets =
  (make: (index: number, bytes: number, random: Random) => Buffer): Make =>
  (_content, durationMs, messageMs, random) => ({
    messageMs,
    messages: Array.from({ length: Math.floor(durationMs / messageMs) }, (_, i) =>
      make(i, Math.max(24, Math.round(messageMs * (3 + 3 * random()))), random),
    ),
  });

const json = (index: number, bytes: number, random: Random) =>
  Buffer.from(
    JSON.stringify({
      type: 'position',
      index,
      values: Array.from({ length: Math.ceil(bytes / 8) }, () => Math.round(random() * 1e5) / 100),
    }),
  );

/** Entropy-coded bytes, in which no 0xff stands without a zero behind it. */
function jpeg(length: number, random: Random): Buffer {
  const body = randomBytes(length, random);
  for (let i = 0; i + 1 < length; i += 1) if (body[i] === 0xff) body[i + 1] = 0;
  Buffer.from('ffd8ffe000104a46494600010100000100010000ffdb0043000806', 'hex').copy(body);
  return body;
}

function h264(index: number, bytes: number, random: Random): Buffer {
  const head = Buffer.of(0, 0, 0, 1, index % 10 === 0 ? 0x65 : 0x41);
  return Buffer.concat([head, randomBytes(bytes, random)]);
}

/** As frames are encrypted end to end: a head that is always the same, a counter, and noise. */
const sealed: Make = (content, durationMs, messageMs, random) => {
  const head = Math.floor(random() * 256);
  const make = packets((index, bytes) =>
    Buffer.concat([Buffer.of(head, index & 0xff), randomBytes(bytes, random)]),
  );
  return make(content, durationMs, messageMs, random);
};

const rtp = (index: number, payload: Buffer, payloadType: number, samplesEach: number): Buffer => {
  const head = Buffer.alloc(12);
  head[0] = 0x80;
  head[1] = payloadType;
  head.writeUInt16BE((4711 + index) & 0xffff, 2);
  head.writeUInt32BE((index * samplesEach) >>> 0, 4);
  head.writeUInt32BE(crc32('ssrc'), 8);
  return Buffer.concat([head, payload]);
};

const rtpPcm: Make = (content, durationMs, messageMs, random) => {
  const bytes = openSampleWriter('pcm_s16le')(soundOf(content, 16_000, durationMs, random));
  const each = 32 * messageMs;
  const messages = Array.from({ length: Math.floor(bytes.length / each) }, (_, i) =>
    rtp(i, bytes.subarray(i * each, (i + 1) * each), 96, 16 * messageMs),
  );
  return { messages, messageMs };
};

const rtpOpus: Make = async (content, durationMs, _messageMs, random) => {
  const opus = await encodeOpus(soundOf(content, 48_000, durationMs, random));
  return { messages: opus.map((packet, i) => rtp(i, packet, 111, 960)), messageMs: 20 };
};

const base64: Make = (content, durationMs, _messageMs, random) => {
  const pcm = openSampleWriter('pcm_s16le')(soundOf(content, 16_000, durationMs, random));
  const bytes = Buffer.from(pcm.toString('base64'));
  return { bytes, bytesPerMs: bytes.length / durationMs };
};

const ima =
  (rateHz: number): Make =>
  (content, durationMs, _messageMs, random) => {
    const bytes = imaAdpcm(pausing(content, rateHz, durationMs, random));
    return { bytes, bytesPerMs: bytes.length / durationMs };
  };

const raw = (codec: SampleCodec, rateHz: number, channels = 1): [InputFormat, Make] => [
  { codec, rateHz, channels } satisfies SampleFormat,
  samples(codec, rateHz, channels),
];
const RAW_RATES_HZ = [8000, 16_000, 24_000, 44_100, 48_000];
const rawFormats = RAW_RATES_HZ.flatMap((rateHz) =>
  [1, 2].flatMap((channels) => [
    raw('pcm_s16be', rateHz, channels),
    raw('pcm_u8', rateHz, channels),
    raw('pcm_s24le', rateHz, channels),
    raw('pcm_s32le', rateHz, channels),
  ]),
);

const OPAQUE: InputFormat = { codec: 'opaque' };

/** By name: what is right to say of it, and how it is made. */
export const UNKNOWN_KINDS = new Map<string, [string, Make]>([
  ['wav', ['wav', wav]],
  ['mp3', ['mp3', recording('.mp3', true)]],
  ['mp3 (ID3, variable rate)', ['mp3', recording('-id3.mp3', true)]],
  ['aac_adts', ['aac_adts', recording('.aac', true)]],
  ['mp4_aac', ['mp4_aac', recording('.mp4', false)]],
  ['flac', ['flac', recording('.flac', false)]],
  ['ogg_flac', ['ogg_flac', recording('.oga', false)]],
  ['ogg_vorbis', ['ogg_vorbis', recording('.ogg', false)]],
  ['Ogg with Speex', ['opaque', recording('.spx', false)]],
  ...[raw('g722', 16_000), ...rawFormats].map(
    ([format, make]) => [formatAudioFormat(format), [formatAudioFormat(format), make]] as const,
  ),
  ...(
    [
      ['IMA ADPCM, 8 kHz', ima(8000)],
      ['IMA ADPCM, 16 kHz', ima(16_000)],
      ['random bytes, 4 kB/s', bytesAt(4, randomBytes)],
      ['random bytes, 32 kB/s', bytesAt(32, randomBytes)],
      ['sealed frames', sealed],
      ['JSON', packets(json)],
      ['JPEG', bytesAt(40, jpeg)],
      ['H.264', packets(h264)],
      ['zeros', bytesAt(32, (length) => Buffer.alloc(length))],
      ['base64 of PCM', base64],
      ['PCM behind RTP heads', rtpPcm],
      ['Opus behind RTP heads', rtpOpus],
    ] as const
  ).map(([name, make]) => [name, [formatAudioFormat(OPAQUE), make]] as const),
] as [string, [string, Make]][]);

export type UnknownCase = { kind: string; content: Content; messageMs: number; seed: number };

export function* unknownCases(seeds: number): Generator<UnknownCase> {
  for (const kind of UNKNOWN_KINDS.keys()) {
    for (const content of UNKNOWN_CONTENTS) {
      for (const messageMs of MESSAGE_LENGTHS_MS) {
        for (let seed = 1; seed <= seeds; seed += 1) yield { kind, content, messageMs, seed };
      }
    }
  }
}

/** The messages of a case, each with the time at which it arrives; undefined if they would be too long to be sent. */
export async function arrivalsOfUnknown(
  { kind, content, messageMs, seed }: UnknownCase,
  durationMs = Math.max(800, 4 * messageMs),
): Promise<TimedMessage[] | undefined> {
  const random = seededRandom(crc32(`${kind} ${content} ${messageMs} ${seed}`));
  const [, make] = UNKNOWN_KINDS.get(kind)!;
  const stream = await make(content, durationMs, messageMs, random);
  const latenessMs = random() < 0.5 ? 1.5 : 4;
  const lateAt = (atMs: number) => 1000 + atMs - latenessMs * Math.log(1 - random() * 0.99);
  if ('messages' in stream) {
    const { messages } = stream;
    return messages.map((message, i) => ({ message, atMs: lateAt(i * stream.messageMs) }));
  }
  const { bytes, bytesPerMs, frameBytes } = stream;
  if (bytesPerMs * messageMs > MAX_MESSAGE_BYTES) return undefined;
  const isCutAnywhere = frameBytes === undefined && random() < 0.5;
  const unitBytes = Math.ceil(frameBytes ?? 1);
  const arrivals: TimedMessage[] = [];
  for (let k = 0, at = 0; at < bytes.length; k += 1) {
    const even = unitBytes * Math.round(((k + 1) * messageMs * bytesPerMs) / unitBytes);
    // Messages that are cut anywhere still keep pace.
    const odd = isCutAnywhere ? Math.round((random() - 0.5) * 0.5 * messageMs * bytesPerMs) : 0;
    const to = Math.max(at + 1, even + odd);
    arrivals.push({ message: bytes.subarray(at, to), atMs: lateAt(k * messageMs) });
    at = to;
  }
  return arrivals;
}
