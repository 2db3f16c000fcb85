import { expect, test } from 'vitest';
import { PendingConsumers } from '../../../src/rooms/pending-consumers.ts';

/** Producers that a browser is offered, and those for which it gets a consumer. */
function open() {
  const consumed: string[] = [];
  const pending = new PendingConsumers<{ id: string }>(({ id }) => consumed.push(id));
  const add = (from: number, to: number) => {
    for (let i = from; i < to; i += 1) pending.add({ id: `p${i}` });
  };
  return { pending, consumed, add };
}

test('before the recv transport is connected there are four consumers, then one for each producer, at most 250', () => {
  const { pending, consumed, add } = open();
  add(0, 300);
  expect(consumed).toHaveLength(4);
  pending.connected();
  expect(consumed).toHaveLength(250);
  pending.ended();
  expect(consumed.at(-1)).toBe('p250');
});

test('producers that end while they wait are forgotten, also where the recv transport is never connected', () => {
  const { pending, consumed, add } = open();
  add(0, 4);
  for (let i = 4; i < 1004; i += 1) {
    add(i, i + 1);
    pending.delete(`p${i}`);
  }
  pending.connected();
  expect(consumed).toEqual(['p0', 'p1', 'p2', 'p3']);
});
