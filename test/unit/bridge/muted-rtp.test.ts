import { expect, test, vi } from 'vitest';
import { MutedRtp } from '../../../src/bridge/muted-rtp.ts';
import { RtpBudget } from '../../../src/bridge/rtp-budget.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import { rateEventsOf } from '../../../src/rooms/rate-events.ts';

/** Watch of a client. */
function open() {
  const budget = new RtpBudget(5000, 0);
  const fail = vi.fn<(fault: unknown) => void>();
  const warn = vi.fn<() => void>();
  const notify = vi.fn<(message: unknown) => void>();
  const events = rateEventsOf(() => ({ fail, notify }));
  const watch = new MutedRtp(
    () => ({ warn }) as never,
    events,
    () => budget,
  );
  return { watch, budget, fail, notify, warn };
}

/**
 * Looks each second at a producer that is muted, or is sent nothing while it is not.
 * @param perSecond packets of 200 bytes that come in the second before
 * @returns the second in which the client is ended, and what it was told; undefined if it is not within two minutes
 */
async function endOf(
  perSecond: (second: number) => number,
  isMuted: (second: number) => boolean = () => true,
) {
  const { watch, budget, fail, notify } = open();
  let packets = 0;
  for (let second = 0; second < 120; second += 1) {
    packets += perSecond(second);
    const count = async () => ({ packets, bytes: packets * 200 });
    // Each time that it is heard again, a packet passes just before.
    if (!isMuted(second)) budget.charge(960, 200, second * 1000 - 10);
    await watch.look(second * 1000, isMuted(second), count);
    const [fault] = fail.mock.calls[0] ?? [];
    if (fault instanceof PartylineError && fault.code === 'audio_rate_exceeded') {
      return { second, told: notify.mock.calls.map(([message]) => message) };
    }
  }
  return undefined;
}

test('a muted sender of ten times real time is ended', async () => {
  const told = [expect.objectContaining({ type: 'error', code: 'rate_limited' })];
  expect(await endOf(() => 500)).toEqual({ second: 10, told });
});

test('a muted sender that was over its budget and comes back a minute later is told again before it is ended', async () => {
  const { watch, budget, fail, notify } = open();
  let packets = 0;
  const lookAt = async (second: number) => {
    packets += 1500;
    await watch.look(second * 1000, true, async () => ({ packets, bytes: packets * 200 }));
  };
  for (let second = 0; second <= 7; second += 1) await lookAt(second);
  expect([notify.mock.calls.length, fail.mock.calls.length]).toEqual([1, 0]);
  // It leaves and comes back, with the budget that is kept.
  await watch.look(8000, true, undefined);
  for (let second = 68; second <= 73; second += 1) await lookAt(second);
  expect(budget.isOver).toBe(true);
  expect([notify.mock.calls.length, fail.mock.calls.length]).toEqual([2, 0]);
  await lookAt(74);
  expect(fail).toHaveBeenCalled();
});

test('a muted sender of packets of 10 ms is not', async () => {
  expect(await endOf(() => 100)).toBeUndefined();
});

test('what came while it was not muted does not count', async () => {
  const isMuted = (second: number) => second % 5 === 0;
  expect(await endOf((second) => (isMuted(second) ? 1000 : 0), isMuted)).toBeUndefined();
});

test('a muted sender of twenty times real time is ended, also if it is heard for one second in five', async () => {
  const isMuted = (second: number) => second % 5 > 0;
  const end = await endOf((second) => (isMuted(second) ? 1000 : 0), isMuted);
  expect(end?.second).toBeLessThan(20);
});

test('a muted sender in real time is not ended for one burst', async () => {
  expect(await endOf((second) => (second === 3 ? 5000 : 50))).toBeUndefined();
});

test('a sender that is muted every other second counts once', async () => {
  expect(
    await endOf(
      () => 50,
      (second) => second % 2 === 0,
    ),
  ).toBeUndefined();
});

test('a stall of this process ends nobody', async () => {
  const { watch, fail } = open();
  for (const second of [0, 5, 35, 40, 45, 50])
    await watch.look(second * 1000, true, async () => ({
      packets: second * 50,
      bytes: second * 64_000,
    }));
  expect(fail).not.toHaveBeenCalled();
});

test('a count that fails is logged, but not that of a producer that has closed', async () => {
  const { watch, warn } = open();
  await watch.look(0, true, async () => undefined);
  expect(warn).not.toHaveBeenCalled();
  const err = new Error('no answer');
  await watch.look(1000, true, async () => Promise.reject(err));
  expect(warn).toHaveBeenCalledWith({ err }, 'packets of a muted producer not counted');
});
