import { expect, test } from 'vitest';
import { CachedReading } from '../../../src/app/cached-reading.ts';

test('callers during a reading, and within the interval after its start, get its result; later ones begin another', async () => {
  let nowMs = 0;
  const readings: ((answer: string) => void)[] = [];
  const begin = () => new Promise<string>((resolve) => readings.push(resolve));
  const shared = new CachedReading(begin, 1000, () => nowMs);
  const early = [shared.read(), shared.read()];
  nowMs = 1500;
  early.push(shared.read());
  expect(readings).toHaveLength(1);
  readings[0]!('first');
  expect(await Promise.all(early)).toEqual(['first', 'first', 'first']);
  const second = shared.read();
  expect(readings).toHaveLength(2);
  readings[1]!('second');
  expect(await second).toBe('second');
  nowMs = 2499;
  expect(await shared.read()).toBe('second');
  nowMs = 2500;
  void shared.read();
  expect(readings).toHaveLength(3);
});
