import { describe, expect, test } from 'vitest';
import {
  WEBHOOK_EARLIER_OUTBOXES,
  WEBHOOK_REPORT_TIMES,
  webhookOutboxKey,
} from '../../src/store/keys.ts';
import { type Change, joined, left, type WebhookEvent } from '../../src/webhooks/events.ts';
import { eventually } from '../support/gateway.ts';
import { untilTaken, useWebhooks, VISIT, visit } from '../support/use-webhooks.ts';

const {
  openHook,
  openNode,
  openReceiver,
  openWorker,
  openWebhookStore,
  openOutbox,
  countWaiting,
  openStore,
  openRedis,
} = useWebhooks();

const hang = () => new Promise<number>(() => {});

test('an event that is never taken is given up when it is too old, and counted; the next ones are sent', async () => {
  const { redis, receiver, id } = await openHook();
  // The events that are taken are never as old, however busy the machine is.
  const keepMs = 6000;
  await openWorker(redis, { firstRetryMs: 1, longestRetryMs: 50 }, { keepMs });
  receiver.answer = ({ event }) => (event.type === 'peer_joined' ? 500 : 200);
  let wallMs = Date.now();
  const node = await openNode(redis, { wallMs: () => wallMs });
  node.peerJoined(id, 'a', 'ada', 'websocket');
  await eventually('it is refused', () => receiver.received.length > 5);
  wallMs = Date.now();
  visit(node, id, 'b');
  // The later events of b are as old as the refused one.
  await eventually('it is counted', async () => (await countWaiting(redis)).dropped === 4);
  wallMs = Date.now();
  node.peerLeft(id, 'a', 'ada', 'left');
  await eventually('the rest', () => receiver.story.includes('room_ended a'));
  const inA = receiver.story.filter((event) => event.includes(' a'));
  expect(inA).toEqual(['room_started a', 'peer_left a/ada', 'room_ended a']);
  const refused = receiver.received.filter(({ event }) => event.type === 'peer_joined');
  expect(new Set(refused.map(({ event }) => event.id)).size).toBe(2);
  expect(await (await openOutbox(redis)).countOf(id)).toEqual({
    events: 0,
    oldestMs: undefined,
    dropped: 4,
  });
});

test('more events than may wait: the oldest are given up, those of other accounts stay', async () => {
  const { redis, receiver, accounts, id } = await openHook();
  const made = { name: 'Bob', email: 'bob@b', plan: 'pro', webhook_url: receiver.url } as const;
  const { id: otherId } = await accounts.create(made);
  let wallMs = Date.now() - 60_000;
  const node = await openNode(redis, { maxEvents: 100, wallMs: () => (wallMs += 1) });
  visit(node, otherId, 'other');
  for (let room = 0; room < 50; room += 1) visit(node, id, `room ${room}`);
  const waiting = async () => (await openOutbox(redis)).countOf(id);
  await eventually('all is told', async () => (await waiting()).dropped === 100);
  expect(await waiting()).toMatchObject({ events: 100, dropped: 100 });
  expect(await countWaiting(redis)).toMatchObject({ rooms: 26, events: 104, dropped: 100 });
  await openWorker(redis);
  await untilTaken(receiver, 104);
  const rooms = Array.from({ length: 25 }, (_, room) => `room ${room + 25}`);
  expect(receiver.story.filter((event) => event.startsWith('room_started')).toSorted()).toEqual(
    [...rooms, 'other'].map((room) => `room_started ${room}`).toSorted(),
  );
});

test('more events of one room than may wait: its oldest are given up', async () => {
  const { redis, id } = await openHook();
  const node = await openNode(redis);
  visit(node, id, 'other');
  for (let call = 0; call < 300; call += 1) visit(node, id);
  const outbox = await openOutbox(redis);
  await eventually('all is told', async () => (await outbox.countOf(id)).dropped === 200);
  expect(await outbox.countOf(id)).toMatchObject({ events: 1004, dropped: 200 });
});

test('a corrected URL is tried at once, and the backlog is sent without further waits', async () => {
  const { redis, receiver, accounts, id } = await openHook();
  receiver.answer = hang;
  const node = await openNode(redis);
  await openWorker(redis, { requestTimeoutMs: 600_000, firstRetryMs: 600_000 });
  for (let room = 0; room < 100; room += 1) visit(node, id, `room ${room}`);
  await eventually('it hangs', () => receiver.received.length >= 20);
  const good = await openReceiver();
  await accounts.update(id, { webhook_url: good.url });
  await untilTaken(good, 400);
  for (let room = 0; room < 100; room += 1) {
    const events = good.story.filter((event) => new RegExp(` room ${room}(/|$)`).test(event));
    expect(events).toEqual(VISIT.map((event) => event.replace(' a', ` room ${room}`)));
  }
});

test('an endpoint that was down and is back gets its backlog at once', async () => {
  const { redis, receiver, id } = await openHook();
  receiver.answer = () => 500;
  const node = await openNode(redis);
  await openWorker(redis, { firstRetryMs: 50, longestRetryMs: 400 });
  for (let room = 0; room < 60; room += 1) visit(node, id, `room ${room}`);
  await eventually('it is down', () => receiver.received.length > 25);
  receiver.answer = () => 204;
  await untilTaken(receiver, 240);
  expect(receiver.mostAtOnce).toBe(1);
});

test('two workers share the accounts; when one ends, the other has all of them', async () => {
  const { redis, accounts } = await openHook();
  const receiver = await openReceiver();
  const node = await openNode(redis);
  const ids = await Promise.all(
    Array.from({ length: 10 }, async (_, index) => {
      const made = { name: `Bob ${index}`, email: 'bob@b', plan: 'pro' } as const;
      return (await accounts.create({ ...made, webhook_url: receiver.url })).id;
    }),
  );
  const one = await openWorker(redis);
  await openWorker(redis);
  for (const accountId of ids) visit(node, accountId, `of ${accountId}`);
  await untilTaken(receiver, 40);
  await one.close();
  for (const accountId of ids) visit(node, accountId, `again ${accountId}`);
  await untilTaken(receiver, 80);
  expect((await countWaiting(redis)).dropped).toBe(0);
});

test('waiting events are reported by their number and their age', async () => {
  const { redis, id } = await openHook();
  let wallMs = Date.UTC(2026, 10, 21, 8, 13, 5, 7);
  const node = await openNode(redis, { wallMs: () => wallMs });
  visit(node, id);
  wallMs += 60_000;
  visit(node, id, 'b');
  await eventually('all is told', async () => (await countWaiting(redis)).events === 8);
  expect(await countWaiting(redis)).toEqual({
    rooms: 2,
    events: 8,
    oldestMs: wallMs - 60_000,
    dropped: 0,
  });
});

test('places that a node of an earlier version has told are sent as well', async () => {
  const { redis, receiver, id } = await openHook();
  const store = await openStore(redis);
  const event = {
    id: 'evt_old',
    created_at: new Date().toISOString(),
    account_id: id,
    type: 'room_started',
    room: 'a',
  };
  await store.run(async (client) => {
    await client.rPush(webhookOutboxKey(id, 'a'), JSON.stringify(event));
    await client.sAdd(WEBHOOK_EARLIER_OUTBOXES, `${id}\na`);
  });
  await openWorker(redis);
  await untilTaken(receiver, 1);
  expect((await countWaiting(redis)).events).toBe(0);
});

describe('nodes that died', () => {
  const BEFORE = '2026-11-21T08:13:00.000Z';
  const FUTURE = '2090-01-01T00:00:00.000Z';
  const present = (peer: string) => ({ accountId: 1, room: 'a', peer, kind: 'websocket' }) as const;

  /** Two nodes, one of which dies; `told` takes the events that wait. */
  async function openNodes() {
    const redis = await openRedis();
    const [store, outbox] = [await openWebhookStore(redis), await openOutbox(redis)];
    for (const node of ['living', 'doomed']) await store.register(node);
    let number = 0;
    const tell = (node: string, change: Change) =>
      store.tell(node, [{ number: (number += 1), change }], 0);
    const join = (node: string, peer: string) => tell(node, joined(present(peer), 0));
    const leave = (node: string, peer: string, at: string) =>
      tell(node, left(present(peer), 'left', Date.parse(at)));
    const reap = async () => {
      await store.reap('doomed', (await store.readNodes()).get('doomed')!);
      await store.takeOutDead(Date.now() + 60_000);
    };
    const told = async () => {
      const events: WebhookEvent[] = [];
      for (;;) {
        const [head] = (await outbox.heads(1, 0, { names: [], skipped: 0, rooms: 1 })).heads;
        if (head === undefined) return events;
        events.push(JSON.parse(head.event) as WebhookEvent);
        await outbox.remove(1, head, false);
      }
    };
    return { join, leave, reap, told };
  }

  test('a peer that left on another node left when it did, not when that was noticed', async () => {
    const { join, leave, reap, told } = await openNodes();
    await join('doomed', 'ada');
    await join('living', 'ada');
    await leave('living', 'ada', BEFORE);
    await reap();
    const [peerLeft, roomEnded] = (await told()).slice(-2);
    expect(peerLeft).toMatchObject({ type: 'peer_left', reason: 'left', created_at: BEFORE });
    expect(roomEnded).toMatchObject({ type: 'room_ended', created_at: BEFORE });
  });

  test('their peers left when the node was last heard of', async () => {
    const { join, reap, told } = await openNodes();
    const beforeMs = Date.now();
    await join('doomed', 'ada');
    const afterMs = Date.now();
    await reap();
    const [peerLeft, roomEnded] = (await told()).slice(-2);
    const createdMs = Date.parse(peerLeft!.created_at);
    expect(peerLeft).toMatchObject({ type: 'peer_left', reason: 'closed' });
    expect(createdMs).toBeGreaterThanOrEqual(beforeMs);
    expect(createdMs).toBeLessThanOrEqual(afterMs);
    expect(roomEnded).toMatchObject({ type: 'room_ended', created_at: peerLeft!.created_at });
  });

  test.each([
    { when: 'after the node died', at: FUTURE, ender: 'bob' },
    { when: 'before the node died', at: BEFORE, ender: 'ada' },
  ])(
    'a room from which another went $when ended with the last that left',
    async ({ at, ender }) => {
      const { join, leave, reap, told } = await openNodes();
      await join('doomed', 'ada');
      await join('living', 'bob');
      await leave('living', 'bob', at);
      await reap();
      const events = await told();
      const last = events.find((event) => event.type === 'peer_left' && event.peer === ender);
      expect(events.map(({ type }) => type).slice(-3)).toEqual([
        'peer_left',
        'peer_left',
        'room_ended',
      ]);
      expect(events.at(-1)!.created_at).toBe(last!.created_at);
      await join('living', 'eve');
      await leave('living', 'eve', BEFORE);
      expect((await told()).at(-1)).toMatchObject({ type: 'room_ended', created_at: BEFORE });
    },
  );

  test('a node is heard of at each heartbeat, also while nobody comes or goes', async () => {
    const { redis, id } = await openHook();
    const store = await openStore(redis);
    const node = await openNode(redis, {}, { beatEveryMs: 20 });
    node.peerJoined(id, 'a', 'ada', 'websocket');
    const seen = () => store.run((client) => client.hVals(WEBHOOK_REPORT_TIMES));
    await expect.poll(seen).toHaveLength(1);
    const [first] = await seen();
    await expect.poll(async () => Number((await seen())[0]) - Number(first)).toBeGreaterThan(20);
  });
});
