import { expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone, peakHz, play, lastSecondOf } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openNodes, enter } = useStack();

const typesOf = ({ messages }: TestClient) => messages.map(({ type }) => type);

test('peers on two nodes see each other come and go', async () => {
  const [a, b] = await openNodes(2);
  const alice = await enter(a!, 'alice');
  const bob = await enter(b!, 'bob');
  expect((await bob.next('joined')).peers).toMatchObject([{ peer: 'alice', kind: 'websocket' }]);
  expect(await alice.next('peer_joined')).toMatchObject({ peer: 'bob', kind: 'websocket' });
  await bob.ask({ type: 'leave' }, 'left');
  expect(await alice.next('peer_left')).toMatchObject({ peer: 'bob', reason: 'left' });
  expect(typesOf(alice).filter((type) => type === 'peer_joined')).toHaveLength(1);
});

test('what is said on one node is heard on the other from its first packet, and who speaks is told', async () => {
  const [a, b] = await openNodes(2);
  const alice = await enter(a!, 'alice');
  const bob = await enter(b!, 'bob');
  const carol = await enter(b!, 'carol');
  await alice.until('both', () => typesOf(alice).filter((t) => t === 'peer_joined')[1]);
  const tone = await opusTone(1000, 0.5, 2000);
  await play(alice, tone);
  for (const listener of [bob, carol]) {
    await eventually('every packet', () => listener.frames.length >= tone.length);
    expect(listener.frames).toEqual(tone);
    expect(await listener.next('speaking')).toMatchObject({ peers: [{ peer: 'alice' }] });
  }
  expect(peakHz(await lastSecondOf(bob))).toBe(1000);
  expect(alice.frames).toEqual([]);
});
