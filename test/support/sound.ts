import { OpusDecoder } from 'opus-decoder';
import { loadOpusCodec } from '../../src/audio/opus-codec.ts';
import type { SampleFormat } from '../../src/audio/format.ts';
import { loadResampler } from '../../src/audio/resampler.ts';
import { downmix, readSamples, upmix, writeSamples } from '../../src/audio/samples.ts';
import type { TestClient } from './client.ts';

/** Tones to send, and ears to hear them with: the decoder is another one than the gateway's. */

const RATE_HZ = 48_000;
const FRAME_SAMPLES = 960;

/** A sine of `frequencyHz`, -1…1, cut into frames of 20 ms. */
function toneFrames(frequencyHz: number, amplitude: number, durationMs: number) {
  return Array.from({ length: durationMs / 20 }, (_, frame) =>
    Float32Array.from(
      { length: FRAME_SAMPLES },
      (_sample, i) =>
        amplitude * Math.sin((2 * Math.PI * frequencyHz * (frame * FRAME_SAMPLES + i)) / RATE_HZ),
    ),
  );
}

/** The same tone as Opus packets. */
export async function opusTone(frequencyHz: number, amplitude: number, durationMs: number) {
  const codec = await loadOpusCodec({ bitrateBps: 48_000, complexity: 5 });
  const encoder = await codec.createEncoder(RATE_HZ);
  const packets = toneFrames(frequencyHz, amplitude, durationMs).map((frame) =>
    encoder.encode(frame),
  );
  encoder.close();
  return packets;
}

/** The same tone as 16-bit PCM, a message for each 20 ms. */
export function pcmTone(frequencyHz: number, amplitude: number, durationMs: number): Buffer[] {
  return toneFrames(frequencyHz, amplitude, durationMs).map((frame) => {
    const bytes = Buffer.alloc(frame.length * 2);
    frame.forEach((sample, i) => bytes.writeInt16LE(Math.round(sample * 32767), i * 2));
    return bytes;
  });
}

/** A sine of `frequencyHz` in any format of samples, cut into messages of so many ms. */
export function sampleTone(
  { codec, rateHz, channels }: SampleFormat,
  frequencyHz: number,
  amplitude: number,
  durationMs: number,
  messageMs = 20,
): Buffer[] {
  const tone = Float32Array.from(
    { length: Math.round((rateHz * durationMs) / 1000) },
    (_, i) => amplitude * Math.sin((2 * Math.PI * frequencyHz * i) / rateHz),
  );
  const bytes = writeSamples(upmix(tone, channels), codec);
  const frameBytes = bytes.length / tone.length;
  const cut = (message: number) => frameBytes * Math.round((message * rateHz * messageMs) / 1000);
  return Array.from({ length: Math.floor(durationMs / messageMs) }, (_, i) =>
    bytes.subarray(cut(i), cut(i + 1)),
  );
}

/** Joins messages of samples, and brings them to 48 kHz as they are heard by one ear. */
export async function joinSamples(
  { codec, rateHz, channels }: SampleFormat,
  messages: Buffer[],
): Promise<Float32Array> {
  const samples = downmix(readSamples(Buffer.concat(messages), codec), channels);
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

/** The amplitude (1 is full scale) of one frequency in a stretch of sound. */
export function amplitudeOf(samples: Float32Array, frequencyHz: number): number {
  let re = 0;
  let im = 0;
  for (let i = 0; i < samples.length; i += 1) {
    const angle = (2 * Math.PI * frequencyHz * i) / RATE_HZ;
    re += samples[i]! * Math.cos(angle);
    im -= samples[i]! * Math.sin(angle);
  }
  return (2 * Math.hypot(re, im)) / samples.length;
}

/** The strongest frequency, to the nearest 10 Hz below 4 kHz. */
export function peakHz(samples: Float32Array): number {
  let best = { frequencyHz: 0, amplitude: 0 };
  for (let frequencyHz = 100; frequencyHz < 4000; frequencyHz += 10) {
    const amplitude = amplitudeOf(samples, frequencyHz);
    if (amplitude > best.amplitude) best = { frequencyHz, amplitude };
  }
  return best.frequencyHz;
}

export const toDb = (ratio: number) => 20 * Math.log10(ratio);
