import { loadOpusCodec } from '../src/audio/opus-codec.ts';
import { encodeOpus, FRAME_SAMPLES, RATE_HZ, speechFrame } from './packets.ts';
import { FRAME_MS } from './pacing.ts';

/** Sound by which the way from mouth to ear is timed: quiet talk with a short loud tone in it now and then. */

/** A burst every 800 ms. */
export const CYCLE_FRAMES = 40;
export const CYCLE_MS = CYCLE_FRAMES * FRAME_MS;
const BURST_AT_FRAME = 20;
const BURST_FRAMES = 3;
const BURST_HZ = 1000;
const BURST_AMPLITUDE = 0.5;
/** Loud enough to count as talk; several of them together stay below the onset. */
const QUIET = 0.04;
const QUIET_FRAMES = 500;
const ONSET_AMPLITUDE = 0.15;
/** A burst is over, and the next not yet there. */
const DEAF_SAMPLES = 0.4 * RATE_HZ;

/** Where in a stream of packets a burst begins. */
export type Onset = { frame: number; offsetMs: number };

export type Bursts = { packets: Buffer[]; onset: Onset };

/**
 * Encodes packets to be sent over and over, with one burst in them, and finds where that begins once it has been decoded.
 * @param cycles how long they are
 */
export async function encodeBurst(cycles = 1): Promise<Bursts> {
  const frames = cycles * CYCLE_FRAMES;
  const cycle = Array.from({ length: frames }, (_, index) => {
    const isBurst = index >= BURST_AT_FRAME && index < BURST_AT_FRAME + BURST_FRAMES;
    return isBurst ? burstFrame() : quietFrame(index);
  });
  // The second time the encoder is in the state in which it is each time after.
  const packets = await encodeOpus([...cycle, ...cycle]);
  const [, onset] = await findOnsets(packets);
  if (!onset) throw new Error('the burst is not heard');
  return {
    packets: packets.slice(frames),
    onset: { ...onset, frame: onset.frame - frames },
  };
}

/** Ten seconds of somebody who talks quietly all the time. */
export function encodeQuietTalk(): Promise<Buffer[]> {
  return encodeOpus(Array.from({ length: QUIET_FRAMES }, (_, index) => quietFrame(index)));
}

/** Where the bursts begin in what a listener got, packets of 20 ms. */
export async function findOnsets(packets: Buffer[]): Promise<Onset[]> {
  const codec = await loadOpusCodec({ bitrateBps: 32_000, complexity: 5 });
  const decoder = await codec.createDecoder();
  const onsets: Onset[] = [];
  let deafUntil = 0;
  for (const [frame, packet] of packets.entries()) {
    const samples = decoder.decode(packet);
    const from = Math.max(0, deafUntil - frame * FRAME_SAMPLES);
    const at = samples.findIndex((sample, i) => i >= from && Math.abs(sample) > ONSET_AMPLITUDE);
    if (at < 0) continue;
    onsets.push({ frame, offsetMs: (at * FRAME_MS) / FRAME_SAMPLES });
    deafUntil = frame * FRAME_SAMPLES + at + DEAF_SAMPLES;
  }
  decoder.close();
  return onsets;
}

const quietFrame = (index: number) => speechFrame(index).map((sample) => sample * QUIET);

/** A whole number of periods, so that frames join. */
const burstFrame = () =>
  Float32Array.from(
    { length: FRAME_SAMPLES },
    (_, i) => BURST_AMPLITUDE * Math.sin((2 * Math.PI * BURST_HZ * i) / RATE_HZ),
  );
