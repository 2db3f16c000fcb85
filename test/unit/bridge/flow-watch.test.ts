import { expect, test } from 'vitest';
import { FlowWatch } from '../../../src/bridge/flow-watch.ts';

test('a client that is ahead for more than 5 s, but has stopped when it was told, has not exceeded the limit', () => {
  const flow = new FlowWatch(5000);
  const told: string[] = [];
  const watch = (nowMs: number, receivedMs: number) => {
    const event = flow.watch(nowMs, 2000, 0, receivedMs);
    if (event) told.push(event);
  };
  let receivedMs = 0;
  for (let nowMs = 0; nowMs < 4000; nowMs += 20) watch(nowMs, (receivedMs += 40));
  for (let nowMs = 4000; nowMs < 7000; nowMs += 20) watch(nowMs, receivedMs);
  expect(told).toEqual(['xoff']);
  watch(7000, receivedMs + 20);
  expect(told).toEqual(['xoff', 'exceeded']);
});
