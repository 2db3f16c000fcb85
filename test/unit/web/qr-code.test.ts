import { decodeQR } from 'qr/decode.js';
import { expect, test } from 'vitest';
import { drawQrCode } from '../../../web/qr-code.ts';

/** Pixels of a module of the code, as a camera sees it. */
const SCALE = 4;

/** Draws the picture as a browser does: a square for each dark module, black on white. */
function rasterize(address: string) {
  const svg = decodeURIComponent(address.slice(address.indexOf(',') + 1));
  const size = Number(/viewBox="0 0 (\d+) /.exec(svg)?.[1]) * SCALE;
  const data = new Uint8ClampedArray(size * size * 4).fill(255);
  let [x, y] = [0, 0];
  for (const [, move, first, second] of svg.matchAll(/([Mm])(-?\d+) ?(-?\d+)h1v1[Hh]-?\d+Z/g)) {
    [x, y] =
      move === 'M' ? [Number(first), Number(second)] : [x + Number(first), y + Number(second)];
    for (let pixel = 0; pixel < SCALE * SCALE; pixel += 1) {
      const column = x * SCALE + (pixel % SCALE);
      const row = y * SCALE + Math.floor(pixel / SCALE);
      data.fill(0, (row * size + column) * 4, (row * size + column) * 4 + 3);
    }
  }
  return { width: size, height: size, data };
}

test('the QR code of an invitation leads to its link', () => {
  const link = `https://voice.example.com/#invite=${'a1_-'.repeat(60)}`;
  expect(decodeQR(rasterize(drawQrCode(link)))).toBe(link);
});
