import { expect, test } from 'vitest';
import { MutedRtp } from '../../../src/bridge/muted-rtp.ts';
import { RtpBudget } from '../../../src/bridge/rtp-budget.ts';

/**
 * Looks each second at a muted producer.
 * @param perSecond packets of 200 bytes that come in each second
 * @returns the second in which it is ended; undefined if it is not within two minutes
 */
async function endOf(perSecond: number, isMuted: (second: number) => boolean = () => true) {
  const budget = new RtpBudget(5000, 0);
  const watch = new MutedRtp();
  for (let second = 0; second < 120; second += 1) {
    const packets = second * perSecond;
    const count = async () => ({ packets, bytes: packets * 200 });
    if (await watch.look(second * 1000, () => budget, isMuted(second) ? count : undefined))
      return second;
  }
  return undefined;
}

test('a muted sender of ten times real time is ended', async () => {
  expect(await endOf(500)).toBe(10);
});

test('a muted sender of packets of 10 ms is not', async () => {
  expect(await endOf(100)).toBeUndefined();
});

test('what came while it was not muted does not count', async () => {
  expect(await endOf(1000, (second) => second % 5 === 0)).toBeUndefined();
});

test('a stall of this process ends nobody', async () => {
  const budget = new RtpBudget(5000, 0);
  const watch = new MutedRtp();
  const look = (second: number) =>
    watch.look(
      second * 1000,
      () => budget,
      async () => ({ packets: second * 50, bytes: second * 64_000 }),
    );
  for (const second of [0, 5, 35, 40, 45, 50]) expect(await look(second)).toBe(false);
});
