import { expect, test } from 'vitest';
import { Imdct } from '../../../../src/audio/aac/imdct.ts';
import { seededRandom } from '../../../support/random.ts';

test.each([128, 1024])('Imdct of %i lines is what its definition says', (lines) => {
  const random = seededRandom(lines);
  const spectrum = Float32Array.from({ length: lines }, () => random() - 0.5);
  const sound = new Float32Array(2 * lines);
  new Imdct(lines).transform(spectrum, sound);
  for (let n = 0; n < sound.length; n += 17) {
    const turn = (Math.PI / lines) * (n + 0.5 + lines / 2);
    const sum = spectrum.reduce((total, value, k) => total + value * Math.cos(turn * (k + 0.5)), 0);
    expect(sound[n]).toBeCloseTo(sum / lines, 6);
  }
});
