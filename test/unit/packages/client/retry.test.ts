import { describe, expect, test } from 'vitest';
import {
  reasonForCloseCode,
  retryDelayMs,
  welcomeTimeoutMs,
} from '../../../../packages/client/src/retry.ts';

const RESUME_MS = 15_000;

/**
 * When attempts begin after a connection was lost, each of which fails.
 * @param takesMs how long each takes
 */
function attempts(takesMs: (keptMs: number) => number, random: () => number): number[] {
  const begun: number[] = [];
  let atMs = 0;
  for (let attempt = 0; atMs < RESUME_MS; attempt += 1) {
    atMs += retryDelayMs(attempt, 0, RESUME_MS - atMs, random);
    begun.push(atMs);
    atMs += takesMs(RESUME_MS - atMs);
  }
  return begun;
}

describe('while a place is kept', () => {
  test.each([
    ['the longest', () => 1],
    ['the shortest', () => 0],
  ])('a gateway that is back 2 s before the end is found in time, with %s pauses', (_, random) => {
    const begun = attempts(() => 0, random);
    for (let backMs = 0; backMs <= RESUME_MS - 2000; backMs += 100) {
      const found = begun.find((atMs) => atMs >= backMs);
      expect(found).toBeLessThan(RESUME_MS);
    }
    expect(begun.length).toBeLessThan(40);
  });

  test('attempts that get no answer leave time for others', () => {
    const begun = attempts(welcomeTimeoutMs, () => 1);
    const last = begun.filter((atMs) => atMs < RESUME_MS - 1000).at(-1);
    expect(begun.length).toBeGreaterThanOrEqual(4);
    expect(last).toBeGreaterThan(RESUME_MS - 6000);
  });
});

test('afterwards pauses grow to 20 s, and an attempt may take 10 s', () => {
  expect(retryDelayMs(0, 0, 0, () => 1)).toBe(500);
  expect(retryDelayMs(9, 0, 0, () => 1)).toBe(20_000);
  expect(retryDelayMs(9, 0, -5, () => 0)).toBe(10_000);
  expect(retryDelayMs(9, 700, 4000, () => 1)).toBe(1700);
  expect(welcomeTimeoutMs(-1)).toBe(10_000);
});

test.each([
  [
    'is retried',
    [1001, 1002, 1006, 1007, 1008, 1011, 1012, 1013, 1014, 1015, 4408, 4429, 4490, 4504],
    true,
  ],
  ['ends the client', [1000, 1005, 1009, 4400, 4401, 4402, 4403, 4409, 4415, 4422, 4999], false],
])('a close without an `error` that %s', (_, closeCodes, retryable) => {
  const reasons = closeCodes.map((closeCode) => reasonForCloseCode(closeCode));
  expect(reasons).toEqual(
    closeCodes.map((closeCode) => expect.objectContaining({ closeCode, retryable })),
  );
});
