import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { keepPlaying, opusTone, play } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

/** Volumes with each delivery, and where too many listeners want their own. */

const { connect, enter, keep } = useGateway();

test('with forward: 0 is not sent, and other volumes are told not to apply until the delivery is mix', async () => {
  const [ann, ben] = [await enter('ann'), await enter('ben')];
  const listener = await enter('listener', { delivery: 'forward' });
  const speakers = new Map(
    (await listener.next('joined')).peers.map(({ peer, speaker }) => [peer, speaker]),
  );
  const set = await listener.ask(
    { type: 'configure', volume: { ann: 0, ben: 0.5, eve: 1 } },
    'configured',
  );
  expect(set).toMatchObject({ volume: { ann: 0, ben: 0.5, eve: 1 }, not_applied: { ben: 0.5 } });
  const tone = await opusTone(1000, 0.5, 200);
  await Promise.all([play(ann, tone), play(ben, tone)]);
  await eventually('ben is heard', () => listener.frames.length >= tone.length);
  const heard = new Set(listener.frames.map((frame) => frame.readUInt16BE(2)));
  expect([...heard]).toEqual([speakers.get('ben')]);
  const mixed = await listener.ask({ type: 'configure', delivery: 'mix' }, 'configured');
  expect(mixed.not_applied).toBeUndefined();
  const back = await listener.ask({ type: 'configure', delivery: 'forward' }, 'configured');
  expect(back.not_applied).toEqual({ ben: 0.5 });
});

test('more than 20 listeners with volumes of their own: the rest is told that theirs do not apply', async () => {
  const [ann, ben] = [await enter('ann'), await enter('ben')];
  const listeners = await Promise.all(
    Array.from({ length: 22 }, async (_, i) => {
      const client = await connect({ peer: `listener ${i}` });
      const volume = { ann: 10 ** (-(i + 1) / 20) };
      await client.ask({ type: 'configure', volume }, 'configured');
      await client.ask({ type: 'join', room: 'a' }, 'joined');
      return { client, volume };
    }),
  );
  const tone = await opusTone(1000, 0.5, 1000);
  for (const speaker of [ann, ben]) keep(keepPlaying(speaker, tone));
  const limited = () =>
    listeners.filter(({ client }) =>
      client.messages.some((message) => 'not_applied' in message && message.not_applied),
    );
  await eventually('two are told', () => limited().length === 2);
  const [{ client, volume }] = limited() as [(typeof listeners)[0]];
  const told = client.messages.filter(({ type }) => type === 'configured').at(-1);
  expect(told).toMatchObject({ volume, not_applied: volume });
  await client.ask({ type: 'leave' }, 'left');
  const alone = await client.ask({ type: 'configure', volume: {} }, 'configured');
  expect(alone.not_applied).toBeUndefined();
});

test('a volume of 1 ends the one before, which no longer counts among the 1000', async () => {
  const client = await connect();
  const volumes = (name: string, gain: number) =>
    Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${name} ${i}`, gain]));
  await client.ask({ type: 'configure', volume: volumes('a', 0.5) }, 'configured');
  const ended = await client.ask({ type: 'configure', volume: volumes('a', 1) }, 'configured');
  expect(ended.volume).toEqual(volumes('a', 1));
  const others = await client.ask({ type: 'configure', volume: volumes('b', 0.5) }, 'configured');
  expect(others.volume).toEqual(volumes('b', 0.5));
});
