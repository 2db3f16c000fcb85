import { expect, test } from 'vitest';
import { processOf } from '../../../src/processes/other-processes.ts';

const ROOMS = Array.from({ length: 1000 }, (_, index) => `1:room ${index}`);

test('processOf: the same process whatever the order, and about as many rooms in each', () => {
  const homes = ROOMS.map((room) => processOf(room, [0, 1, 2, 3]));
  expect(ROOMS.map((room) => processOf(room, [3, 1, 0, 2]))).toEqual(homes);
  for (const process of [0, 1, 2, 3]) {
    const rooms = homes.filter((home) => home === process).length;
    expect(rooms).toBeGreaterThan(200);
    expect(rooms).toBeLessThan(300);
  }
});

test('processOf: when a process goes, only its rooms have another home', () => {
  const moved = ROOMS.filter(
    (room) => processOf(room, [0, 1, 2, 3]) !== processOf(room, [0, 1, 3]),
  );
  expect(moved).toEqual(ROOMS.filter((room) => processOf(room, [0, 1, 2, 3]) === 2));
});

test('processOf: nowhere, when no process takes clients', () => {
  expect(processOf('1:a', [])).toBeUndefined();
});
