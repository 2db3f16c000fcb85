import { expect, test } from 'vitest';
import { Arrivals, bestMomentMs, TickMoment } from '../../../../src/audio/mixing/arrivals.ts';

test('the moment after which none waits long is the one before the longest pause', () => {
  expect(bestMomentMs([])).toBeUndefined();
  expect(bestMomentMs([7])).toBe(7);
  expect(bestMomentMs([1, 5, 103])).toBe(5);
  expect(bestMomentMs([18, 2])).toBe(2);
});

test('packets wait as long as the last of them comes late', () => {
  const arrivals = new Arrivals();
  expect([arrivals.waitMs(0), arrivals.lastMs]).toEqual([undefined, undefined]);
  for (const atMs of [0, 21, 43, 60]) arrivals.add(atMs * 48, atMs);
  expect(arrivals.waitMs(70)).toBeCloseTo(7);
  expect(arrivals.lastMs).toBe(60);
  // Packets of long ago do not count.
  for (let atMs = 80; atMs < 260; atMs += 20) arrivals.add(atMs * 48, atMs);
  expect(arrivals.waitMs(270)).toBeCloseTo(10);
});

test('the pace of a client that sends 120 ms in one message: six packets at once, each less late than the one before', () => {
  const arrivals = new Arrivals();
  expect(arrivals.pace).toBeUndefined();
  // Before a pause of a second by the clock only: it tells nothing.
  arrivals.add(0, -1000);
  for (let i = 0; i < 7; i += 1) arrivals.add(i * 960, Math.floor(i / 6) * 120);
  const last = { timestamp: 6 * 960, atMs: 120 };
  expect(arrivals.pace).toEqual({ ...last, quickestMs: -100, lateMs: 100 });
});

/** Speakers that have sent eight packets, each at its phase of the 20 ms, and up to `jitterMs` later. */
const speakersAt = (phasesMs: number[], jitterMs = 0) =>
  phasesMs.map((phaseMs) => {
    const arrivals = new Arrivals();
    for (let i = 0; i < 8; i += 1)
      arrivals.add(i * 960, 1000 + i * 20 + phaseMs + (i % 2) * jitterMs);
    return { arrivals };
  });

/** What the 25th tick of a room decides. */
function decide(speakers: ReturnType<typeof speakersAt>, tickMs: number) {
  const moment = new TickMoment();
  for (let i = 1; i < 25; i += 1) expect(moment.better(speakers, tickMs)).toBeUndefined();
  const move = moment.better(speakers, tickMs);
  return move && { phaseMs: move.dueMs % 20, isLater: move.isLater };
}

test('ticks come sooner if all packets wait longer than necessary', () => {
  expect(decide(speakersAt([0]), 2015)).toEqual({ phaseMs: 4, isLater: false });
  expect(decide(speakersAt([0, 4]), 2017)).toEqual({ phaseMs: 8, isLater: false });
});

test('ticks come later if a packet would be missed for sooner ones', () => {
  // At 6 the packet of 5 waits 21 ms; at 14 none waits longer than 14.
  expect(decide(speakersAt([0, 5, 10]), 2006)).toEqual({ phaseMs: 14, isLater: true });
});

test('ticks stay if another moment is hardly better, if there is nobody, and for speakers with jitter', () => {
  expect(decide(speakersAt([0]), 2007)).toBeUndefined();
  expect(decide([], 2000)).toBeUndefined();
  expect(decide(speakersAt([0], 12), 2015)).toBeUndefined();
});

test('ticks that have moved are told by how much, and a pause of the ticks is no move', () => {
  const moment = new TickMoment();
  const moves = [1000, 1020, 1048, 1068, 1080, 2000, 2020].map((tickMs) => moment.movedMs(tickMs));
  expect(moves).toEqual([0, 0, 8, 0, -8, 0, 0]);
});
