import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openGateway, enter } = useStack();

test('a client that does not read loses frames, then its place; the others hear every frame', async () => {
  const gateway = await openGateway();
  const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
  const slow = await enter(gateway, 'slow', { audio: 'pcm_f32le;rate=48000;channels=2' });
  slow.detachSocket();
  const tone = await opusTone(1000, 0.5, 25_000);
  const playing = play(alice, tone);
  expect(await bob.next('peer_left', 0, 28_000)).toMatchObject({
    peer: 'slow',
    reason: 'slow_consumer',
  });
  await playing;
  await eventually('every frame', () => bob.frames.length === tone.length);
}, 40_000);
