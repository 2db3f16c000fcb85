import { expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore } = useStack();

test('who hears that messages may have been missed can run commands', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const answers: (string | Error)[] = [];
  const onGap = () => {
    store
      .run((client) => client.ping())
      .then(
        (answer) => answers.push(answer),
        (fault: Error) => answers.push(fault),
      );
  };
  await store.subscribe('channel', { onMessage: () => {}, onGap });
  for (let restarts = 1; restarts <= 5; restarts += 1) {
    await redis.restart();
    await eventually('the gap is told', () => answers.length === restarts);
  }
  expect(answers).toEqual(Array.from({ length: 5 }, () => 'PONG'));
});

test('what is heard no more while Redis is away is not subscribed to when it is back', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const listener = { onMessage: () => {}, onGap: () => {} };
  await store.subscribe('wanted', listener);
  const leave = await store.subscribe('unwanted', listener);
  redis.hang();
  leave();
  await redis.restart();
  await eventually('it hears again, and no more than it wants', async () => {
    if (!(await store.isThere())) return false;
    const channels = await store.run((client) => client.pubSubChannels());
    return channels.join() === 'wanted';
  });
});
