import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { left } from '../../../src/webhooks/events.ts';
import { HeldLeaves } from '../../../src/webhooks/held-leaves.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const HOLD_MS = 2000;

function open(max = 10) {
  const released: string[] = [];
  const leaves = new HeldLeaves(HOLD_MS, max, (leave) => {
    if (leave.op === 'leave') released.push(leave.peer);
  });
  const hold = (peer: string) => {
    const present = { accountId: 1, room: 'a', peer, kind: 'websocket' } as const;
    leaves.hold(peer, left(present, 'replaced', 0));
  };
  return { leaves, released, hold };
}

test('a leave is released after the hold, unless its peer came back', () => {
  const { leaves, released, hold } = open();
  hold('ada');
  hold('bob');
  vi.advanceTimersByTime(HOLD_MS - 1);
  expect([released, leaves.has('ada')]).toEqual([[], true]);
  leaves.drop('ada');
  vi.advanceTimersByTime(1);
  expect([released, leaves.has('ada'), leaves.has('bob')]).toEqual([['bob'], false, false]);
});

test('a leave beyond the maximum releases the oldest; close() releases none, and leaves no timer', () => {
  const { leaves, released, hold } = open(2);
  for (const peer of ['ada', 'bob', 'eve']) hold(peer);
  expect(released).toEqual(['ada']);
  leaves.close();
  vi.advanceTimersByTime(HOLD_MS);
  expect(released).toEqual(['ada']);
  expect(vi.getTimerCount()).toBe(0);
});
