/**
 * Opens a resampler by linear interpolation, for rates close to each other: at a tenth of the cost of one with a filter it attenuates
 * what is near the upper end of the band. Positions are integers, so that the number of samples stays exact.
 */
export function openLinearResampler(
  fromHz: number,
  toHz: number,
): (samples: Float32Array) => Float32Array {
  let last = 0;
  /** Position of the next output sample: input samples after `last`, and a fraction of one, of which `toHz` are one. */
  let index = 1;
  let fraction = 0;
  return (samples) => {
    const { length } = samples;
    const rest = (length - index) * toHz - fraction;
    const out = new Float32Array(Math.max(0, Math.ceil(rest / fromHz)));
    for (let i = 0; i < out.length; i += 1) {
      const before = index === 0 ? last : samples[index - 1]!;
      out[i] = before + (samples[index]! - before) * (fraction / toHz);
      for (fraction += fromHz; fraction >= toHz; fraction -= toHz) index += 1;
    }
    index -= length;
    last = samples.at(-1) ?? last;
    return out;
  };
}
