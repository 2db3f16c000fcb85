import { describe, expect, test } from 'vitest';
import { Liveness } from '../../../src/store/liveness.ts';

const DEAD_AFTER_MS = 3000;

/** Reads the signs of life of two processes each second: `self` shows a new one each time, `other` when the test says so. */
function watch() {
  const liveness = new Liveness(DEAD_AFTER_MS);
  let wallMs = 1_000_000;
  let own = 0;
  let sign = '1';
  const read = (stepMs = 1000) => {
    wallMs += stepMs;
    own += 1;
    liveness.see(new Map(Object.entries({ self: String(own), other: sign })), wallMs);
    return liveness.dead();
  };
  read();
  return {
    liveness,
    read,
    beat: (next: string) => {
      sign = next;
    },
    readWithout: () => {
      wallMs += 1000;
      liveness.see(new Map(), wallMs);
      return liveness.dead();
    },
  };
}

describe('Liveness', () => {
  test('a process whose sign of life stands still for the given time is dead, with that sign', () => {
    const { read } = watch();
    expect([read(), read()]).toEqual([[], []]);
    expect(read()).toEqual([['other', '1']]);
  });

  test('a process that shows a new sign of life lives, whatever the sign says', () => {
    const { read, beat } = watch();
    read();
    read();
    beat('0');
    expect([read(), read(), read()]).toEqual([[], [], []]);
    expect(read()).toEqual([['other', '0']]);
  });

  test.each([
    ['forward by an hour', 3_600_000],
    ['back by an hour', -3_600_000],
  ])('a jump of the clock %s kills no process', (_, jumpMs) => {
    const { read } = watch();
    expect(read(jumpMs)).toEqual([]);
    expect(read()).toEqual([]);
  });

  test('silence begins anew after a time in which Redis could not be read', () => {
    const { liveness, read } = watch();
    read();
    read();
    liveness.restart();
    expect(read(60_000)).toEqual([]);
    expect([read(), read()]).toEqual([[], []]);
    expect(read()).toEqual([['other', '1']]);
  });

  test('a process that is missing from Redis is dead after the same time', () => {
    const { readWithout } = watch();
    expect([readWithout(), readWithout()]).toEqual([[], []]);
    expect(readWithout()).toEqual([
      ['self', '1'],
      ['other', '1'],
    ]);
  });

  test('a renewed process is silent from then on', () => {
    const { liveness, read } = watch();
    read();
    read();
    liveness.renew('other');
    expect([read(), read()]).toEqual([[], []]);
    expect(read()).toEqual([['other', '1']]);
  });

  test('a dead process is named until it is forgotten', () => {
    const { liveness, read } = watch();
    for (let seconds = 0; seconds < 3; seconds += 1) read();
    expect(read()).toEqual([['other', '1']]);
    liveness.forget('other');
    expect(read()).toEqual([]);
  });
});
