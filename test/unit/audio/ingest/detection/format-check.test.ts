import { expect, test } from 'vitest';
import { parseAudioFormat } from '../../../../../src/audio/format.ts';
import { WeighingTurns } from '../../../../../src/audio/ingest/detection/detector.ts';
import { FormatCheck } from '../../../../../src/audio/ingest/detection/format-check.ts';
import { arrivalsOf } from '../../../../support/corpus.ts';
import { seededRandom } from '../../../../support/random.ts';

const MESSAGE_MS = 20;
const openCheck = () => new FormatCheck({ codec: 'opaque' }, false, new WeighingTurns());
const random = seededRandom(1);
const encrypted = () => Buffer.from(Uint8Array.from({ length: 320 }, () => random() * 256));

test('lookAnew() before each message: the check that runs since the first is not restarted, and ends', () => {
  const check = openCheck();
  let ended = 0;
  for (let i = 0; i < 50; i += 1) {
    check.lookAnew();
    check.push(encrypted(), i * MESSAGE_MS, 0);
    if (!check.isRunning) ended += 1;
  }
  expect(ended).toBeGreaterThan(0);
});

test('lookAnew() while a check runs that began before: it begins again, with the next message', () => {
  const check = openCheck();
  check.push(encrypted(), 0, 0);
  check.push(encrypted(), MESSAGE_MS, 0);
  expect(check.isRunning).toBe(true);
  check.lookAnew();
  expect(check.isRunning).toBe(false);
  expect(check.dueAtMs).toBe(0);
});

test('lookAnew() after another format has been observed once: the check goes on, and tells of it', async () => {
  const format = parseAudioFormat('pcm_s16le;rate=16000;channels=1');
  const sound = { content: 'speech', format, messageMs: MESSAGE_MS, seed: 2 } as const;
  const arrivals = await arrivalsOf(sound, 2000);
  const toldAt = (from: number) => {
    const check = openCheck();
    return arrivals.findIndex(({ message, atMs }, i) => {
      if (i >= from) check.lookAnew();
      return check.push(message, atMs, 0) !== undefined;
    });
  };
  const told = toldAt(Infinity);
  expect(told).toBeGreaterThan(0);
  // The last messages before it belong to the second observation.
  expect(toldAt(told - 1)).toBe(told);
});
