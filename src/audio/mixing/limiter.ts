/** Length of the blocks for which a gain is chosen, samples: 5 ms. The gain changes linearly across a block. */
const BLOCK_SAMPLES = 240;
/** Level of a limited peak: a little under full scale, so that Opus has room to overshoot. */
const CEILING = 0.97;
/** Recovery of the gain per block: about half a second from -6 dB. */
const RELEASE_PER_BLOCK = 0.005;

/** Attenuates a sum of loud speakers instead of clipping it. Keeps its gain from frame to frame. */
export class Limiter {
  #gain = 1;

  /** Limits `frame` in place; its length is a multiple of 240 samples. A quiet frame at unity gain is left untouched. */
  process(frame: Float32Array): void {
    for (let start = 0; start < frame.length; start += BLOCK_SAMPLES) {
      this.#processBlock(frame, start, start + BLOCK_SAMPLES);
    }
  }

  #processBlock(frame: Float32Array, start: number, end: number): void {
    const peak = peakOf(frame, start, end);
    const wanted = peak > CEILING ? CEILING / peak : 1;
    if (wanted === 1 && this.#gain === 1) return;
    const to = Math.min(wanted, this.#gain + RELEASE_PER_BLOCK, 1);
    const step = (to - this.#gain) / BLOCK_SAMPLES;
    for (let i = start; i < end; i += 1) {
      this.#gain += step;
      const limited = frame[i]! * this.#gain;
      // The gain is still decreasing in the first block of a burst: peaks beyond full scale are
      // clipped there.
      frame[i] = Math.abs(limited) > 1 ? Math.sign(limited) : limited;
    }
    this.#gain = to;
  }
}

/**
 * Clips samples beyond full scale, in place, as every decoder to 16 bits does; returns them. Packets of Opus may hold sound hundreds of
 * times louder, for which the limiter would turn all other speakers down.
 * @param samples as many as a multiple of 4
 */
export function clipped(samples: Float32Array): Float32Array {
  if (peakOf(samples, 0, samples.length) <= 1) return samples;
  for (let i = 0; i < samples.length; i += 1) samples[i] = Math.max(-1, Math.min(1, samples[i]!));
  return samples;
}

/**
 * Returns the largest magnitude between two positions, whose distance is a multiple of 4. Four maxima that do not wait for each
 * other take half the time of one.
 */
function peakOf(frame: Float32Array, start: number, end: number): number {
  let first = 0;
  let second = 0;
  let third = 0;
  let fourth = 0;
  for (let i = start; i < end; i += 4) {
    const a = Math.abs(frame[i]!);
    const b = Math.abs(frame[i + 1]!);
    const c = Math.abs(frame[i + 2]!);
    const d = Math.abs(frame[i + 3]!);
    if (a > first) first = a;
    if (b > second) second = b;
    if (c > third) third = c;
    if (d > fourth) fourth = d;
  }
  return Math.max(first, second, third, fourth);
}
