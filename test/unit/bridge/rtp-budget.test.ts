import { expect, test } from 'vitest';
import { RtpBudget } from '../../../src/bridge/rtp-budget.ts';

/** Real time before a stall, and its length, ms. */
const [STALLS_AT_MS, STALL_MS] = [5000, 8000];

/**
 * Sends packets in real time, then those of a stall faster than they are played, and then goes on in real time.
 * @param rate duration of sound that comes per duration of time, until all of the stall has come
 * @param beginsAtMs time of the first packet
 */
function verdictsOf(rate: number, packetMs: number, beginsAtMs: number): Set<string> {
  const budget = new RtpBudget(5000, 0);
  const verdicts = new Set<string>();
  let arrivesAtMs = beginsAtMs;
  for (let madeAtMs = beginsAtMs; madeAtMs < 45_000; madeAtMs += packetMs) {
    const heldUntilMs = madeAtMs < STALLS_AT_MS ? 0 : STALLS_AT_MS + STALL_MS;
    arrivesAtMs = Math.max(madeAtMs, heldUntilMs, arrivesAtMs + packetMs / rate);
    verdicts.add(budget.charge(packetMs * 48, 4 * packetMs, arrivesAtMs));
  }
  return verdicts;
}

test.each([1.5, 1.78, 1.8, 1.82, 1.84, 1.86, 1.88, 1.89, 1.9, 1.92, 1.95, 1.98, 2, 2.1, 3, 10])(
  'what a stall of 8 s has held back ends nobody if it comes at %d times real time',
  (rate) => {
    for (const packetMs of [10, 20, 60]) {
      for (let beginsAtMs = 0; beginsAtMs < 1000; beginsAtMs += 130) {
        expect([...verdictsOf(rate, packetMs, beginsAtMs)]).toEqual(['pass']);
      }
    }
  },
);
