import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { workerCounters } from '../../workers/worker-counters.ts';
import { eventually } from '../support/gateway.ts';
import { untilTaken, useWebhooks, VISIT, visit } from '../support/use-webhooks.ts';

const { openHook, openNode, openWorker, countWaiting, cleanUps } = useWebhooks();

/** Maximum number of requests of an account at once. */
const AT_ONCE = 20;
/** Time in which a worker makes several attempts to remove an event, or to send one again, ms. */
const SEVERAL_ATTEMPTS_MS = 2000;

/** Opens a hook whose endpoint accepts nothing until `answer` is called, with the events of some rooms. */
async function openSilent(rooms: string[]) {
  const { redis, receiver, id } = await openHook();
  const { promise: until, resolve: answer } = Promise.withResolvers<void>();
  receiver.answer = async () => {
    await until;
    return 204;
  };
  const node = await openNode(redis);
  for (const room of rooms) visit(node, id, room);
  const events = rooms.length * VISIT.length;
  await eventually('all wait', async () => (await countWaiting(redis)).events === events);
  return { redis, receiver, answer, events };
}

test('Redis refuses to remove events that were accepted: each is sent once, its room waits, and others go on', async () => {
  const rooms = Array.from({ length: AT_ONCE + 5 }, (_, index) => `room ${index}`);
  const { redis, receiver, answer, events } = await openSilent(rooms);
  const before = { ...workerCounters.webhookRequests };
  const countRequests = () => {
    const { taken, failed } = workerCounters.webhookRequests;
    return { taken: taken - before.taken, failed: failed - before.failed };
  };
  await openWorker(redis);
  await eventually('the first ones are sent', () => receiver.received.length === AT_ONCE);
  await redis.refuseWrites();
  answer();
  await eventually('other rooms go on', () => receiver.received.length >= rooms.length);
  await delay(SEVERAL_ATTEMPTS_MS);
  expect(receiver.received.map(({ event }) => event.type)).toEqual(rooms.map(() => 'room_started'));
  expect(receiver.story.toSorted()).toEqual(rooms.map((room) => `room_started ${room}`).toSorted());
  expect(countRequests()).toEqual({ taken: rooms.length, failed: 0 });
  expect((await countWaiting(redis)).events).toBe(events);

  await redis.acceptWrites();
  await untilTaken(receiver, events);
  await eventually('none waits', async () => (await countWaiting(redis)).events === 0);
  expect(receiver.received).toHaveLength(events);
  expect(countRequests()).toEqual({ taken: events, failed: 0 });
  for (const room of rooms) {
    const ofRoom = receiver.story.filter((event) => new RegExp(` ${room}(/|$)`).test(event));
    expect(ofRoom).toEqual(VISIT.map((event) => event.replace(' a', ` ${room}`)));
  }
});

test('a worker that is killed before Redis removes an accepted event: another sends it once more', async () => {
  const { redis, receiver, answer } = await openSilent(['a']);
  const program = fileURLToPath(new URL('../support/webhook-worker.ts', import.meta.url));
  const doomed = spawn(process.execPath, [program, redis.url], { stdio: 'inherit' });
  cleanUps.push(() => void doomed.kill('SIGKILL'));
  await eventually('a request', () => receiver.received.length === 1);
  await redis.refuseWrites();
  answer();
  await eventually('it is accepted', () => receiver.taken.length === 1);
  await delay(SEVERAL_ATTEMPTS_MS);
  const exited = once(doomed, 'exit');
  doomed.kill('SIGKILL');
  await exited;
  await redis.acceptWrites();
  await openWorker(redis);
  await untilTaken(receiver, 4);
  await eventually('none waits', async () => (await countWaiting(redis)).events === 0);
  expect(receiver.story).toEqual(VISIT);
  expect(receiver.received).toHaveLength(1 + VISIT.length);
});
