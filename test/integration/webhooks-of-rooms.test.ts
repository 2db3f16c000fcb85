import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { Accounts } from '../../src/accounts/accounts.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';
import { WebhookReceiver } from '../support/webhook-receiver.ts';
import { openWebhookWorker } from '../../workers/webhook-jobs.ts';

const { openRedis, openNodes, openStore, createAccount, enter, connect, cleanUps } = useStack();

/** Two nodes, and the server of an account that is told what happens in its rooms. */
async function openHookedNodes() {
  const redis = await openRedis();
  const [one, other] = await openNodes(2, { RESUME_MS: '15000' }, redis);
  const store = await openStore(redis);
  const accounts = new Accounts(store);
  const receiver = await WebhookReceiver.start();
  cleanUps.push(() => receiver.close());
  const { id, apiKey } = await createAccount(redis, 'pro');
  await accounts.update(id, { webhook_url: receiver.url });
  const parts = { redis: store, accounts, clock: { wallMs: Date.now }, log: silentLog };
  const worker = await openWebhookWorker(
    parts,
    { keepMs: 86_400_000, maxEvents: 1000 },
    DEFAULT_TIMINGS,
  );
  cleanUps.push(() => worker.close());
  return { receiver, one: { ...one!, apiKey }, other: { ...other!, apiKey } };
}

test('rooms that span nodes are told of as one: they start with the first peer and end with the last', async () => {
  const { receiver, one, other } = await openHookedNodes();
  const ada = await enter(one, 'ada');
  const bob = await enter(other, 'bob');
  await eventually('three events', () => receiver.story.length === 3);
  await ada.ask({ type: 'leave' }, 'left');
  await bob.ask({ type: 'join', room: 'b' }, 'joined');
  await eventually('the rest', () => receiver.story.length === 8);
  const inA = receiver.story.filter((event) => event.includes(' a'));
  expect(inA).toEqual([
    'room_started a',
    'peer_joined a/ada',
    'peer_joined a/bob',
    'peer_left a/ada',
    'peer_left a/bob',
    'room_ended a',
  ]);
  const inB = receiver.story.filter((event) => event.includes(' b'));
  expect(inB).toEqual(['room_started b', 'peer_joined b/bob']);
});

test.each(['the same node', 'another node'])(
  'a peer whose connection breaks, and that comes back to %s, has never left',
  async (where) => {
    const { receiver, one, other } = await openHookedNodes();
    const ada = await enter(one, 'ada');
    const { session_id, resume_token } = await ada.next('welcome');
    ada.vanish();
    const node = where === 'the same node' ? one : other;
    const again = await connect(node, { peer: 'ada', session_id, resume_token });
    await again.next('joined');
    await again.ask({ type: 'leave' }, 'left');
    await eventually('it is over', () => receiver.story.includes('room_ended a'));
    expect(receiver.story).toEqual([
      'room_started a',
      'peer_joined a/ada',
      'peer_left a/ada',
      'room_ended a',
    ]);
  },
);
