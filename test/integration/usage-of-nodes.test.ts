import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { openNodes, enter } = useStack();

type Report = { total_seconds: number; records: { room: string; peak_peers: number }[] };

test('the peak of a room that spans nodes is the most that were in it at once, and no sum of what nodes saw', async () => {
  const timings = { usage: { writeEveryMs: 50 } };
  const [one, other] = await openNodes(2, {}, undefined, timings);
  const report = async () => {
    const response = await fetch(`${one!.url}/api/usage?granularity=day`, {
      headers: { authorization: `Bearer ${one!.apiKey}` },
    });
    return (await response.json()) as Report;
  };
  const ada = await enter(one!, 'ada');
  const bob = await enter(other!, 'bob');
  await ada.next('peer_joined');
  const carol = await enter(other!, 'carol');
  await carol.ask({ type: 'leave' }, 'left');
  await bob.ask({ type: 'leave' }, 'left');
  // One after the other: two of each node, and never more than three in all.
  await enter(one!, 'dora');
  await eventually('the peak is known', async () => {
    const { records } = await report();
    return records.some(({ peak_peers: peak }) => peak === 3);
  });
  const { records } = await report();
  expect(Math.max(...records.map(({ peak_peers: peak }) => peak))).toBe(3);
});
