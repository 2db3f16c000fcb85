/**
 * A fixed amount of what tests mostly do: floating-point arithmetic, strings and objects, and bytes. `machine-speed.mjs` takes the time of it.
 */
import { createHash } from 'node:crypto';

const samples = new Float64Array(65_536);
for (let round = 0; round < 60; round += 1) {
  for (let i = 0; i < samples.length; i += 1) {
    samples[i] = 0.5 * Math.sin(i + round) + 0.5 * (samples[(7 * i) % samples.length] ?? 0);
  }
}
const texts = new Map();
for (let i = 0; i < 150_000; i += 1)
  texts.set(`key ${i % 50_000}`, JSON.stringify({ i, twice: 2 * i }));
const hash = createHash('sha256');
for (let round = 0; round < 60; round += 1) hash.update(new Uint8Array(samples.buffer));
