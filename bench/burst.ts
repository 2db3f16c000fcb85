import { loadOpusCodec } from '../src/audio/opus-codec.ts';
import { encodeOpus, FRAME_SAMPLES, RATE_HZ, speechFrame } from './packets.ts';
import { FRAME_MS } from './pacing.ts';

/** Audio by which the latency from mouth to ear is measured: quiet talk with a short loud tone at intervals. */

/** Interval of the bursts, frames of 20 ms: 800 ms. */
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
/**
 * Time after the onset of a burst in which no other is looked for, samples: the burst is over by then, and
 * the next has not begun.
 */
const DEAF_SAMPLES = 0.4 * RATE_HZ;

/** Place of the onset of a burst in a stream of packets: number of the packet, and offset in it. */
type Onset = { frame: number; offsetMs: number };

export type Bursts = { packets: Buffer[]; onset: Onset };

/**
 * Encodes packets with one burst, to be sent in a loop, and finds the onset of the burst after decoding.
 * @param cycles length of the loop, in cycles of {@link CYCLE_FRAMES}
 */
export async function encodeBurst(cycles = 1): Promise<Bursts> {
  const frames = cycles * CYCLE_FRAMES;
  const cycle = Array.from({ length: frames }, (_, index) => {
    const isBurst = index >= BURST_AT_FRAME && index < BURST_AT_FRAME + BURST_FRAMES;
    return isBurst ? burstFrame() : quietFrame(index);
  });
  // The cycle is encoded twice: at the second one the encoder is in the state in which it is at
  // each repetition.
  const packets = await encodeOpus([...cycle, ...cycle]);
  const [, onset] = await findOnsets(packets);
  if (!onset) throw new Error('the burst is not heard');
  return {
    packets: packets.slice(frames),
    onset: { ...onset, frame: onset.frame - frames },
  };
}

/** Encodes ten seconds of continuous quiet talk. */
export function encodeQuietTalk(): Promise<Buffer[]> {
  return encodeOpus(Array.from({ length: QUIET_FRAMES }, (_, index) => quietFrame(index)));
}

/** Returns the onsets of the bursts in the packets of 20 ms that a listener received. */
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
