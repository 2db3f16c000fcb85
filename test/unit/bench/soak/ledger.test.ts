import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Ledger } from '../../../../bench/soak/ledger.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const wait = (seconds: number) => vi.advanceTimersByTime(1000 * seconds);

/** One stay of `seconds`, on node a. */
function stay(ledger: Ledger, seconds: number): void {
  const connection = ledger.connect(1, 'a');
  connection.entered();
  wait(seconds);
  connection.left();
}

test('the time between joined and left counts, once', () => {
  const ledger = new Ledger();
  const connection = ledger.connect(1, 'a');
  connection.left();
  connection.entered();
  wait(5);
  connection.entered();
  wait(5);
  connection.left();
  wait(5);
  connection.left();
  expect(ledger.expected(1).seenS).toBe(10);
  expect(ledger.expected(2).seenS).toBe(0);
});

test('a node that is killed loses what it had not written, of those that were on it', () => {
  const ledger = new Ledger();
  stay(ledger, 60);
  ledger.nodeWasKilled('b', performance.now());
  expect(ledger.expected(1).doubtfulS).toBe(0);
  ledger.nodeWasKilled('a', performance.now());
  expect(ledger.expected(1).doubtfulS).toBe(5.5);
});

test('one that is killed after it could not reach Redis loses that time as well', () => {
  const ledger = new Ledger();
  const connection = ledger.connect(1, 'a');
  connection.entered();
  wait(30);
  const awayFromMs = performance.now();
  wait(2);
  ledger.redisWasAway(awayFromMs, performance.now());
  wait(3);
  connection.left();
  ledger.nodeWasKilled('a', performance.now());
  expect(ledger.expected(1).doubtfulS).toBe(10.5);
});

test('a client that does not read may be there or not', () => {
  const ledger = new Ledger();
  const connection = ledger.connect(1, 'a');
  connection.entered();
  wait(30);
  connection.stoppedReading();
  wait(9);
  connection.left();
  const { seenS, doubtfulS, leastS, mostS } = ledger.expected(1);
  expect([seenS, doubtfulS]).toEqual([39, 9]);
  expect(leastS).toBeCloseTo(30, 0);
  expect(mostS).toBeCloseTo(39, 0);
});
