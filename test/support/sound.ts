import { Application, createEncoder, type EncoderOptions } from 'libopus-wasm';
import { OpusDecoder } from 'opus-decoder';
import type { SampleFormat } from '../../src/audio/format.ts';
import { loadResampler } from '../../src/audio/resampler.ts';
import { downmix, openSampleReader, openSampleWriter, upmix } from '../../src/audio/samples.ts';
import type { TestClient } from './client.ts';
import { joinOpusFrames } from './corpus.ts';

/** Tones to send, and ears to hear them with: the decoder is another one than the gateway's. */

const RATE_HZ = 48_000;

/** A sine of `frequencyHz`, -1…1. */
export function tone(
  frequencyHz: number,
  amplitude: number,
  durationMs: number,
  rateHz = RATE_HZ,
): Float32Array {
  const sound = new Float32Array(Math.round((rateHz * durationMs) / 1000));
  for (let i = 0; i < sound.length; i += 1) {
    sound[i] = amplitude * Math.sin((2 * Math.PI * frequencyHz * i) / rateHz);
  }
  return sound;
}

/** A sine that rises, at a steady pace, from one frequency to another. */
export function sweep(
  [fromHz, toHz]: [number, number],
  amplitude: number,
  durationMs: number,
  rateHz = RATE_HZ,
): Float32Array {
  const pace = ((toHz - fromHz) / durationMs) * 1000;
  return Float32Array.from({ length: Math.round((rateHz * durationMs) / 1000) }, (_, i) => {
    const seconds = i / rateHz;
    return amplitude * Math.sin(2 * Math.PI * (fromHz * seconds + (pace / 2) * seconds ** 2));
  });
}

/** Lets a sound begin and end without a click. */
export function fade(sound: Float32Array, fadeMs = 20): Float32Array {
  const fadeSamples = (fadeMs * RATE_HZ) / 1000;
  return sound.map((sample, i) => {
    const fromEdge = Math.min(1, i / fadeSamples, (sound.length - 1 - i) / fadeSamples);
    return (sample * (1 - Math.cos(Math.PI * fromEdge))) / 2;
  });
}

/** Packets of more than 60 ms are several of these, joined. */
const JOINED_FRAME_MS = 20;

/** Sound at 48 kHz, on both channels if there are two, as Opus packets of `packetMs` each. */
export async function encodeOpus(
  sound: Float32Array,
  packetMs = 20,
  options: EncoderOptions = {},
): Promise<Buffer[]> {
  const { channels = 1 } = options;
  const frameMs = packetMs > 60 ? JOINED_FRAME_MS : packetMs;
  const frameSize = (frameMs * RATE_HZ) / 1000;
  const encoder = await createEncoder({
    sampleRate: RATE_HZ,
    frameSize,
    channels,
    application: Application.RestrictedLowDelay,
    bitrate: 48_000,
    complexity: 5,
    ...options,
  });
  const frames = Array.from({ length: Math.floor(sound.length / frameSize) }, (_, i) =>
    Buffer.from(
      encoder.encodeFloat(upmix(sound.subarray(i * frameSize, (i + 1) * frameSize), channels)),
    ),
  );
  encoder.free();
  const framesPerPacket = packetMs / frameMs;
  return Array.from({ length: Math.floor(frames.length / framesPerPacket) }, (_, i) =>
    joinOpusFrames(frames.slice(i * framesPerPacket, (i + 1) * framesPerPacket)),
  );
}

/** A sine of `frequencyHz` as Opus packets of 20 ms. */
export const opusTone = (frequencyHz: number, amplitude: number, durationMs: number) =>
  encodeOpus(tone(frequencyHz, amplitude, durationMs));

/** A sine of `frequencyHz` as 16-bit PCM, a message for each 20 ms. */
export const pcmTone = (frequencyHz: number, amplitude: number, durationMs: number): Buffer[] =>
  sampleTone(
    { codec: 'pcm_s16le', rateHz: RATE_HZ, channels: 1 },
    frequencyHz,
    amplitude,
    durationMs,
  );

/** A sine of `frequencyHz` in any format of samples, cut into messages of `messageMs`. */
export const sampleTone = (
  format: SampleFormat,
  frequencyHz: number,
  amplitude: number,
  durationMs: number,
  messageMs = 20,
): Buffer[] =>
  sampleMessages(format, tone(frequencyHz, amplitude, durationMs, format.rateHz), messageMs);

/** Sound at the rate of a format of samples, cut into messages of `messageMs`; a rest that fills no message is left out. */
export function sampleMessages(
  { codec, rateHz, channels }: SampleFormat,
  sound: Float32Array,
  messageMs = 20,
): Buffer[] {
  const bytes = openSampleWriter(codec)(upmix(sound, channels));
  const frameBytes = bytes.length / sound.length;
  const cut = (message: number) => frameBytes * Math.round((message * rateHz * messageMs) / 1000);
  const messages: Buffer[] = [];
  for (let i = 0; cut(i + 1) <= bytes.length; i += 1) {
    messages.push(bytes.subarray(cut(i), cut(i + 1)));
  }
  return messages;
}

/** Joins messages of samples, and brings them to 48 kHz as they are heard by one ear. */
export async function joinSamples(
  { codec, rateHz, channels }: SampleFormat,
  messages: Buffer[],
): Promise<Float32Array> {
  const samples = downmix(openSampleReader(codec)(Buffer.concat(messages)), channels);
  if (rateHz === RATE_HZ) return samples;
  const openResampler = await loadResampler();
  const resampler = openResampler(rateHz, RATE_HZ);
  const resampled = resampler.process(samples);
  resampler.close();
  return resampled;
}

/** Sends one message each `everyMs`, as a microphone does; resolves after the last, or when `signal` aborts. */
export async function play(
  client: TestClient,
  messages: Uint8Array[],
  signal?: AbortSignal,
  everyMs = 20,
): Promise<void> {
  const startMs = performance.now();
  for (const [index, message] of messages.entries()) {
    if (signal?.aborted) return;
    const waitMs = startMs + index * everyMs - performance.now();
    if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
    client.sendAudio(message);
  }
}

/** Sends the same over and over, until it is closed. */
export function keepPlaying(
  client: TestClient,
  messages: Uint8Array[],
): { close(): Promise<void> } {
  const stopping = new AbortController();
  const played = (async () => {
    while (!stopping.signal.aborted) await play(client, messages, stopping.signal);
  })();
  return {
    close: () => {
      stopping.abort();
      return played;
    },
  };
}

/** The last second that an Opus client has heard; what came before it lets the decoder settle. */
export async function lastSecondOf({ frames }: TestClient): Promise<Float32Array> {
  return (await decodeOpus(frames.slice(-75))).slice(-RATE_HZ);
}

/** Decodes Opus packets in one go. */
export async function decodeOpus(packets: Uint8Array[]): Promise<Float32Array> {
  const decoder = new OpusDecoder({ channels: 1, sampleRate: RATE_HZ });
  await decoder.ready;
  const { channelData } = decoder.decodeFrames(packets);
  decoder.free();
  return channelData[0] ?? new Float32Array(0);
}

/** Joins 16-bit PCM messages. */
export function joinPcm(messages: Buffer[]): Float32Array {
  const bytes = Buffer.concat(messages);
  return Float32Array.from(
    { length: bytes.length >> 1 },
    (_, i) => bytes.readInt16LE(i * 2) / 32768,
  );
}

/** One frequency in a stretch of sound: its amplitude (1 is full scale) and its phase, 0 for a cosine that begins there. */
export function toneIn(
  samples: Float32Array,
  frequencyHz: number,
): { amplitude: number; phase: number } {
  const step = (2 * Math.PI * frequencyHz) / RATE_HZ;
  const [turnRe, turnIm] = [Math.cos(step), Math.sin(step)];
  let re = 0;
  let im = 0;
  // Turned on from sample to sample, which is as exact as need be and ten times as fast as a sine
  // for each.
  let cos = 1;
  let sin = 0;
  for (let i = 0; i < samples.length; i += 1) {
    re += samples[i]! * cos;
    im -= samples[i]! * sin;
    const turned = cos * turnRe - sin * turnIm;
    sin = cos * turnIm + sin * turnRe;
    cos = turned;
  }
  return { amplitude: (2 * Math.hypot(re, im)) / samples.length, phase: Math.atan2(im, re) };
}

/** The amplitude (1 is full scale) of one frequency in a stretch of sound. */
export const amplitudeOf = (samples: Float32Array, frequencyHz: number): number =>
  toneIn(samples, frequencyHz).amplitude;

const PEAK_STEP_HZ = 10;
/** Multiples of the step repeat after as many samples. */
const PEAK_PERIOD = RATE_HZ / PEAK_STEP_HZ;

/** The strongest frequency, to the nearest 10 Hz below 4 kHz. */
export function peakHz(samples: Float32Array): number {
  // The sum of the periods has as much of each as the whole, and is a tenth of a second at most.
  const summed = new Float32Array(Math.min(samples.length, PEAK_PERIOD));
  for (let i = 0; i < samples.length; i += 1) summed[i % PEAK_PERIOD]! += samples[i]!;
  let best = { frequencyHz: 0, amplitude: 0 };
  for (let frequencyHz = 100; frequencyHz < 4000; frequencyHz += PEAK_STEP_HZ) {
    const amplitude = amplitudeOf(summed, frequencyHz);
    if (amplitude > best.amplitude) best = { frequencyHz, amplitude };
  }
  return best.frequencyHz;
}

/** Sum of the squares of samples. */
export function energyOf(samples: Float32Array | Float64Array): number {
  let energy = 0;
  for (const sample of samples) energy += sample ** 2;
  return energy;
}

export const toDb = (ratio: number) => 20 * Math.log10(ratio);
