import { expect, test } from 'vitest';
import { workerCounters } from '../../workers/worker-counters.ts';
import { eventually } from '../support/gateway.ts';
import { useWebhooks, visit } from '../support/use-webhooks.ts';

const { openHook, openNode, openReceiver, openWorker, countWaiting, openStore } = useWebhooks();

/** An account with a receiver that answers, and others whose receiver hangs, with events of `rooms` rooms each. */
async function openHanging(of: { accounts: number; rooms: number }) {
  const { redis, receiver, accounts, id } = await openHook();
  const hanging = await openReceiver();
  hanging.answer = () => new Promise(() => {});
  const ids = await Promise.all(
    Array.from({ length: of.accounts }, async (_, index) => {
      const made = { name: `Bob ${index}`, email: 'bob@b', plan: 'pro' } as const;
      return (await accounts.create({ ...made, webhook_url: hanging.url })).id;
    }),
  );
  const node = await openNode(redis);
  for (let room = 0; room < of.rooms; room += 1) {
    for (const hangingId of ids) visit(node, hangingId, `room ${room}`);
  }
  const events = 4 * of.rooms * of.accounts;
  await eventually('all wait', async () => (await countWaiting(redis)).events === events);
  return { redis, receiver, hanging, node, id, ids };
}

test('accounts whose endpoints hang are not tried again before their time, and hold nobody up', async () => {
  const { redis, receiver, hanging, node, id, ids } = await openHanging({
    accounts: 10,
    rooms: 10,
  });
  const { failed } = workerCounters.webhookRequests;
  await openWorker(redis, {
    requestTimeoutMs: 1000,
    firstRetryMs: 100_000,
    longestRetryMs: 100_000,
  });
  const isTold = (events: number) => () => receiver.story.length === events;
  for (let room = 0; room < 20; room += 1) visit(node, id, `room ${room}`);
  await eventually('the other is told', isTold(80));
  const hasFailed = () => workerCounters.webhookRequests.failed - failed === 10 * ids.length;
  await eventually('each has failed', hasFailed);
  for (let room = 0; room < 20; room += 1) visit(node, id, `later ${room}`);
  await eventually('the other is told again', isTold(160));
  // Fewer on a busy machine, where requests end before they are received.
  expect(hanging.received.length).toBeLessThanOrEqual(10 * ids.length);
  const store = await openStore(redis);
  const evals = async () => {
    const stats = await store.run((client) => client.info('commandstats'));
    return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };
  await eventually('nothing is on its way', async () => {
    const first = await evals();
    await new Promise((resolve) => setTimeout(resolve, 500));
    // A worker looks around a few times a second, with the times of this test.
    return (await evals()) - first < 200;
  });
});

test('accounts whose endpoints hang share the 400 requests of a worker, and leave some to another', async () => {
  const { redis, receiver, hanging, node, id } = await openHanging({ accounts: 40, rooms: 20 });
  const { failed } = workerCounters.webhookRequests;
  await openWorker(redis, { requestTimeoutMs: 600_000 });
  await eventually('all requests are open', () => hanging.received.length === 400);
  for (let room = 0; room < 20; room += 1) visit(node, id, `room ${room}`);
  await eventually('the other is told', () => receiver.story.length === 80);
  expect(hanging.received.length).toBe(400);
  expect(Math.max(...countByAccount(hanging.received).values())).toBe(10);
  expect(workerCounters.webhookRequests.failed).toBe(failed);
});

function countByAccount(received: { event: { account_id: number } }[]): Map<number, number> {
  const counts = new Map<number, number>();
  for (const { event } of received) {
    counts.set(event.account_id, (counts.get(event.account_id) ?? 0) + 1);
  }
  return counts;
}
