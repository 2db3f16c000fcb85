import { Application, createEncoder } from 'libopus-wasm';
import type { TimedMessage } from '../../src/audio/ingest/detection/pace.ts';
import { type AudioFormat, formatAudioFormat, type SampleFormat } from '../../src/audio/format.ts';
import { frameBytesOf, openSampleWriter, upmix } from '../../src/audio/samples.ts';
import { type Random, seededRandom } from './random.ts';

/**
 * Streams that clients may send, made by seed: sound of each content in each format, cut as clients cut it, arriving
 * as networks deliver.
 */

export const CONTENTS = ['speech', 'music', 'silence', 'noise', 'tones'] as const;
type Content = (typeof CONTENTS)[number];

const MESSAGE_LENGTHS_MS = [10, 20, 40, 60, 100, 200];
/** Lengths of programs that seldom send; only samples fill them, because one packet of Opus has 120 ms at most. */
const LONG_MESSAGES_MS = [500, 1000];
export const MAX_MESSAGE_BYTES = 65_536;

export const RATES_HZ = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];

export const FORMATS: AudioFormat[] = [
  { codec: 'opus' },
  { codec: 'pcmu', rateHz: 8000, channels: 1 },
  { codec: 'pcma', rateHz: 8000, channels: 1 },
  ...RATES_HZ.flatMap((rateHz) =>
    [1, 2].flatMap((channels): SampleFormat[] => [
      { codec: 'pcm_s16le', rateHz, channels },
      { codec: 'pcm_f32le', rateHz, channels },
    ]),
  ),
];

/** Shortest duration of a stream, ms: as much as the detector may hear before it must decide, and a little more. */
const DURATION_MS = 700;
const MIN_MESSAGES = 3;

export type CorpusCase = {
  content: Content;
  format: AudioFormat;
  messageMs: number;
  seed: number;
};

export const nameOf = ({ content, format, messageMs, seed }: CorpusCase) =>
  `${content} as ${formatAudioFormat(format)}, ${messageMs} ms, seed ${seed}`;

/** @param hasLong true if there are long messages, too */
export function* corpusCases(seeds: number, hasLong = false): Generator<CorpusCase> {
  for (const format of FORMATS) {
    const long = hasLong ? LONG_MESSAGES_MS.filter((ms) => mayBeLong(format, ms)) : [];
    for (const content of CONTENTS) {
      for (const messageMs of [...MESSAGE_LENGTHS_MS, ...long]) {
        for (let seed = 1; seed <= seeds; seed += 1) yield { content, format, messageMs, seed };
      }
    }
  }
}

const mayBeLong = (format: AudioFormat, messageMs: number) =>
  format.codec !== 'opus' &&
  (format.rateHz * frameBytesOf(format) * messageMs) / 1000 <= MAX_MESSAGE_BYTES;

/** The messages of a case, each with the time at which it arrives. */
export async function arrivalsOf(
  corpusCase: CorpusCase,
  durationMs = Math.max(DURATION_MS, MIN_MESSAGES * corpusCase.messageMs),
): Promise<TimedMessage[]> {
  const { content, format, messageMs, seed } = corpusCase;
  const random = seededRandom(seed * 7919 + messageMs * 31 + CONTENTS.indexOf(content));
  return streamOf([{ content, durationMs }], { format, messageMs, random });
}

/** Sounds one after another in one format, each message with the time at which it arrives. `zeros`: digital silence. */
export async function streamOf(
  parts: readonly { content: Content | 'zeros'; durationMs: number }[],
  { format, messageMs, random }: { format: AudioFormat; messageMs: number; random: Random },
): Promise<TimedMessage[]> {
  const rateHz = format.codec === 'opus' ? 48_000 : format.rateHz;
  const sounds = parts.map(({ content, durationMs }) =>
    content === 'zeros'
      ? new Float32Array(Math.round((rateHz * durationMs) / 1000))
      : soundOf(content, rateHz, durationMs, random),
  );
  const messages =
    format.codec === 'opus'
      ? await opusMessages(joinSounds(sounds), messageMs, random)
      : sampleMessages(sounds, format, messageMs, random);
  const latenessMs = random() < 0.5 ? 1.5 : 4;
  const everyMs = format.codec === 'opus' ? opusFrameMs(messageMs) : messageMs;
  return messages.map((message, k) => ({
    message,
    atMs: 1000 + k * everyMs - latenessMs * Math.log(1 - random() * 0.99),
  }));
}

function joinSounds(sounds: readonly Float32Array[]): Float32Array {
  const joined = new Float32Array(sounds.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const sound of sounds) {
    joined.set(sound, at);
    at += sound.length;
  }
  return joined;
}

/** The longest that one packet holds is 120 ms. */
const opusFrameMs = (messageMs: number) => Math.min(120, messageMs);

async function opusMessages(mono: Float32Array, messageMs: number, random: Random) {
  const packetMs = opusFrameMs(messageMs);
  // Encoders make at most 60 ms; more is several frames of one configuration joined.
  const frameMs = packetMs > 60 ? 20 : packetMs;
  const channels = random() < 0.3 ? 2 : 1;
  const applications = [Application.RestrictedLowDelay, Application.Audio, Application.Voip];
  const encoder = await createEncoder({
    sampleRate: 48_000,
    channels,
    frameSize: frameMs * 48,
    application: applications[packetMs > 60 ? 0 : Math.floor(random() * 3)]!,
    bitrate: [12_000, 24_000, 32_000, 64_000, 96_000][Math.floor(random() * 5)]!,
    vbr: random() < 0.7,
    dtx: random() < 0.2,
    // As browsers encode.
    complexity: 9,
  });
  const sound = upmix(mono, channels);
  const frameValues = frameMs * 48 * channels;
  const frames: Buffer[] = [];
  for (let at = 0; at + frameValues <= sound.length; at += frameValues) {
    frames.push(Buffer.from(encoder.encodeFloat(sound.subarray(at, at + frameValues))));
  }
  encoder.free();
  const framesPerPacket = packetMs / frameMs;
  return Array.from({ length: Math.floor(frames.length / framesPerPacket) }, (_, i) =>
    joinOpusFrames(frames.slice(i * framesPerPacket, (i + 1) * framesPerPacket)),
  );
}

/** Packets of one frame each as one packet (RFC 6716 §3.2.5: code 3, variable bit rate). */
export function joinOpusFrames(packets: Buffer[]): Buffer {
  const [first] = packets;
  if (!first || packets.length === 1) return first ?? Buffer.alloc(0);
  const lengths = packets.slice(0, -1).map(({ length }) => {
    const bytes = length - 1;
    const low = bytes < 252 ? bytes : 252 + ((bytes - 252) & 3);
    return bytes < 252 ? Buffer.of(bytes) : Buffer.of(low, (bytes - low) >> 2);
  });
  const head = Buffer.of(first[0]! | 3, 0x80 | packets.length);
  return Buffer.concat([head, ...lengths, ...packets.map((packet) => packet.subarray(1))]);
}

function sampleMessages(
  parts: readonly Float32Array[],
  { codec, rateHz, channels }: SampleFormat,
  messageMs: number,
  random: Random,
): Buffer[] {
  const sounds = parts.map((mono) => (channels === 2 ? stereoOf(mono, random) : mono));
  const bytes = openSampleWriter(codec)(joinSounds(sounds));
  const frameBytes = frameBytesOf({ codec, channels });
  const isWhole = random() < 0.5;
  const cut = (k: number) =>
    frameBytes *
    (isWhole
      ? k * Math.floor((rateHz * messageMs) / 1000)
      : Math.round((k * rateHz * messageMs) / 1000));
  const messages: Buffer[] = [];
  for (let k = 0; cut(k + 1) <= bytes.length; k += 1)
    messages.push(bytes.subarray(cut(k), cut(k + 1)));
  return messages;
}

/** A microphone heard on both channels, or a voice somewhere between them in a room. */
export function stereoOf(mono: Float32Array, random: Random): Float32Array {
  if (random() < 0.4) return upmix(mono, 2);
  const [left, right] = [0.5 + random() / 2, 0.5 + random() / 2];
  const peak = mono.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0);
  const stereo = new Float32Array(mono.length * 2);
  for (let i = 0; i < mono.length; i += 1) {
    stereo[2 * i] = mono[i]! * left + gaussian(random) * peak * 0.005;
    stereo[2 * i + 1] = mono[i]! * right + gaussian(random) * peak * 0.005;
  }
  return stereo;
}

export function soundOf(
  content: Content,
  rateHz: number,
  durationMs: number,
  random: Random,
): Float32Array {
  const sound = new Float32Array(Math.round((rateHz * durationMs) / 1000));
  const make = { speech, music, silence, noise, tones }[content];
  make(sound, rateHz, random);
  return sound;
}

/** Pulses of a moving pitch through three formants, in syllables with breath between them. */
function speech(sound: Float32Array, rateHz: number, random: Random): void {
  const level = 0.03 + random() * 0.25;
  let pitchHz = 90 + random() * 140;
  const resonators = [500, 1500, 2500].map((hz) =>
    resonator(hz * (0.8 + random() * 0.4), 90, rateHz),
  );
  let phase = 0;
  let loudest = 0;
  for (let i = 0; i < sound.length; i += 1) {
    const syllable = Math.sin((2 * Math.PI * 4 * i) / rateHz + 0.5);
    pitchHz *= 1 + (random() - 0.5) * 0.001;
    phase += pitchHz / rateHz;
    const pulse = phase >= 1 ? 1 : 0;
    phase %= 1;
    const source = (syllable > -0.3 ? pulse : 0) + gaussian(random) * 0.01;
    sound[i] = resonators.reduce((sum, resonate) => sum + resonate(source), 0);
    loudest = Math.max(loudest, Math.abs(sound[i]!));
  }
  for (let i = 0; i < sound.length; i += 1) sound[i]! *= level / loudest;
}

function resonator(frequencyHz: number, bandwidthHz: number, rateHz: number) {
  const radius = Math.exp((-Math.PI * bandwidthHz) / rateHz);
  const turn = 2 * radius * Math.cos((2 * Math.PI * Math.min(frequencyHz, rateHz * 0.45)) / rateHz);
  let [last, lastButOne] = [0, 0];
  return (input: number) => {
    const output = input + turn * last - radius * radius * lastButOne;
    [last, lastButOne] = [output, last];
    return output;
  };
}

/** Chords of decaying notes with harmonics, and something struck now and then. */
function music(sound: Float32Array, rateHz: number, random: Random): void {
  const level = 0.05 + random() * 0.2;
  const decay = Float64Array.from(sound, (_, i) => Math.exp(-3 * (i / rateHz)));
  for (let from = 0; from < sound.length; from += Math.round(rateHz / 4)) {
    for (let note = 0; note < 3; note += 1) {
      const hz = 110 * 2 ** (Math.floor(random() * 36) / 12);
      for (let harmonic = 1; harmonic * hz < rateHz * 0.45 && harmonic < 7; harmonic += 1) {
        for (let i = from; i < sound.length; i += 1) {
          const seconds = (i - from) / rateHz;
          sound[i]! +=
            (level / 3 / harmonic) *
            decay[i - from]! *
            Math.sin(2 * Math.PI * hz * harmonic * seconds);
        }
      }
    }
    for (let i = from; i < Math.min(sound.length, from + rateHz / 20); i += 1) {
      sound[i]! += gaussian(random) * level * 0.2;
    }
  }
}

/** Writes the noise of a microphone in a quiet room: a few steps of 16 bits. */
function silence(sound: Float32Array, rateHz: number, random: Random): void {
  const level = (2 + random() * 4) / 32_768;
  let low = 0;
  for (let i = 0; i < sound.length; i += 1) {
    low += (gaussian(random) - low) * 0.3;
    sound[i] =
      level * (low + gaussian(random) * 0.3 + 0.5 * Math.sin((2 * Math.PI * 50 * i) / rateHz));
  }
}

/** White, or coloured as fans and streets are. */
function noise(sound: Float32Array, _rateHz: number, random: Random): void {
  const level = 0.01 + random() * 0.2;
  const colour = random() < 0.5 ? 1 : 0.05 + random() * 0.5;
  let low = 0;
  for (let i = 0; i < sound.length; i += 1) {
    low += (gaussian(random) - low) * colour;
    sound[i] = (level / Math.sqrt(colour)) * low;
  }
}

/** One to three sines. */
function tones(sound: Float32Array, rateHz: number, random: Random): void {
  const level = 0.02 + random() * 0.5;
  const count = 1 + Math.floor(random() * 3);
  for (let tone = 0; tone < count; tone += 1) {
    const hz = 100 + random() * 3000;
    for (let i = 0; i < sound.length; i += 1) {
      sound[i]! += (level / count) * Math.sin((2 * Math.PI * hz * i) / rateHz);
    }
  }
}

function gaussian(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
