import { expect, test } from 'vitest';
import { SharedLook } from '../../../src/app/shared-look.ts';

test('all that ask during a look, and within the interval, get its answer; then there is another', async () => {
  let nowMs = 0;
  const looks: ((answer: string) => void)[] = [];
  const begin = () => new Promise<string>((resolve) => looks.push(resolve));
  const shared = new SharedLook(begin, 1000, () => nowMs);
  const early = [shared.read(), shared.read()];
  nowMs = 1500;
  early.push(shared.read());
  expect(looks).toHaveLength(1);
  looks[0]!('first');
  expect(await Promise.all(early)).toEqual(['first', 'first', 'first']);
  const second = shared.read();
  expect(looks).toHaveLength(2);
  looks[1]!('second');
  expect(await second).toBe('second');
  nowMs = 2499;
  expect(await shared.read()).toBe('second');
  nowMs = 2500;
  void shared.read();
  expect(looks).toHaveLength(3);
});
