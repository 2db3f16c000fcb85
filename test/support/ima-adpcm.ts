/** IMA ADPCM (IMA Digital Audio Focus, 1992): 4 bits a sample, the first in the lower half of a byte, without blocks. */

const INDEX_STEPS = [-1, -1, -1, -1, 2, 4, 6, 8];
const MAX_INDEX = 88;
const stepAt = (index: number) => Math.floor(7 * 1.1 ** index);

export function imaAdpcm(sound: Float32Array): Buffer {
  const bytes = Buffer.alloc(sound.length >> 1);
  let [predicted, index] = [0, 0];
  for (let i = 0; i < bytes.length * 2; i += 1) {
    const step = stepAt(index);
    const difference = Math.round(sound[i]! * 32_767) - predicted;
    const size = Math.min(7, Math.floor((4 * Math.abs(difference)) / step));
    const change = Math.floor(((2 * size + 1) * step) / 8);
    predicted = Math.max(
      -32_768,
      Math.min(32_767, predicted + (difference < 0 ? -change : change)),
    );
    index = Math.max(0, Math.min(MAX_INDEX, index + INDEX_STEPS[size]!));
    const code = size | (difference < 0 ? 8 : 0);
    bytes[i >> 1]! |= code << (4 * (i & 1));
  }
  return bytes;
}
