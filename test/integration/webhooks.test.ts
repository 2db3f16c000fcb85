import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import {
  WEBHOOK_DEPARTED_NODES,
  WEBHOOK_NODES,
  WEBHOOK_PREFIX,
  webhookPeersKey,
} from '../../src/store/keys.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import { joined, left, type PresentPeer, type WebhookEvent } from '../../src/webhooks/events.ts';
import { WebhookStore } from '../../src/webhooks/webhook-store.ts';
import { freePort } from '../support/free-ports.ts';
import { eventually } from '../support/gateway.ts';
import { seededRandom } from '../support/random.ts';
import { TestRedis } from '../support/redis.ts';
import { untilTaken, useWebhooks, VISIT, visit } from '../support/use-webhooks.ts';
import { isSigned, WebhookReceiver } from '../support/webhook-receiver.ts';

const {
  openRedis,
  openGateway,
  openStore,
  createAccount,
  enter,
  cleanUps,
  openHook,
  openNode,
  openWorker,
  openWebhookStore,
  openOutbox,
  countWaiting,
} = useWebhooks();

describe('the events', () => {
  test('events in order, as the documentation says, signed with the secret of the account', async () => {
    const { redis, receiver, accounts, id, secret } = await openHook();
    await openWorker(redis);
    const node = await openNode(redis);
    const resetsAt = '2099-01-01T00:00:00.000Z';
    visit(node, id);
    await untilTaken(receiver, 4);
    node.quotaExhausted(id, resetsAt);
    await untilTaken(receiver, 5);
    const head = {
      id: expect.stringMatching(/^evt_[\w-]+$/) as string,
      created_at: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      account_id: id,
    };
    const peer = { ...head, room: 'a', peer: 'ada', kind: 'websocket' };
    expect(receiver.received.map(({ event }) => event)).toEqual([
      { ...head, type: 'room_started', room: 'a' },
      { ...peer, type: 'peer_joined' },
      { ...peer, type: 'peer_left', reason: 'left' },
      { ...head, type: 'room_ended', room: 'a' },
      { ...head, type: 'quota_exhausted', resets_at: resetsAt },
    ]);
    for (const received of receiver.received) {
      expect(received.headers['webhook-id']).toBe(received.event.id);
      expect(received.headers['content-type']).toBe('application/json');
      expect(await isSigned(received, secret)).toBe(true);
      expect(await isSigned({ ...received, body: `${received.body} ` }, secret)).toBe(false);
    }
    const changed = await accounts.update(id, { webhook_url: receiver.url });
    expect(changed.webhook_secret).not.toBe(secret);
    visit(node, id);
    await untilTaken(receiver, 9);
    expect(await isSigned(receiver.received.at(-1)!, changed.webhook_secret!)).toBe(true);
    expect(await isSigned(receiver.received.at(-1)!, secret)).toBe(false);
  });

  test('an account without a webhook costs no Redis command; when it gets one, who is there is told', async () => {
    const { redis, receiver, accounts } = await openHook();
    const { id } = await accounts.create({ name: 'Bob', email: 'bob@b', plan: 'pro' });
    const node = await openNode(redis);
    const store = await openStore(redis);
    const evals = async () => {
      const stats = await store.client.info('commandstats');
      const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
      return calls.reduce((sum, [, digits]) => sum + Number(digits), 0);
    };
    const before = await evals();
    expect(before).toBeGreaterThan(0);
    visit(node, id, 'b');
    node.peerJoined(id, 'b', 'bob', 'webrtc');
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(await evals()).toBe(before);
    await openWorker(redis);
    await accounts.update(id, { webhook_url: receiver.url });
    await untilTaken(receiver, 2);
    expect(receiver.story).toEqual(['room_started b', 'peer_joined b/bob']);
    await accounts.update(id, { webhook_url: '' });
    await eventually('nothing waits', async () => (await countWaiting(redis)).events === 0);
    node.peerLeft(id, 'b', 'bob', 'left');
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(receiver.story.length).toBe(2);
  });

  test('quota_exhausted once, however often and by however many nodes it is seen', async () => {
    const { redis, receiver, id } = await openHook();
    const nodes = [await openNode(redis), await openNode(redis)];
    await openWorker(redis);
    for (const month of ['2099-01', '2099-02']) {
      for (const node of nodes) node.quotaExhausted(id, `${month}-01T00:00:00.000Z`);
      for (const node of nodes) node.quotaExhausted(id, `${month}-01T00:00:00.000Z`);
    }
    for (const node of nodes) visit(node, id, `room ${nodes.indexOf(node)}`);
    await untilTaken(receiver, 10);
    const told = receiver.story.filter((event) => event === 'quota_exhausted');
    expect(told.length).toBe(2);
  });
});

describe('two nodes', () => {
  test('a peer that goes from one to the other is there all the time, in whatever order that is told', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis);
    const [one, other] = [await openNode(redis), await openNode(redis)];
    one.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    other.peerJoined(id, 'a', 'ada', 'websocket');
    other.peerJoined(id, 'b', 'eve', 'websocket');
    await untilTaken(receiver, 4);
    one.peerLeft(id, 'a', 'ada', 'replaced');
    one.peerLeft(id, 'a', 'ada', 'replaced');
    visit(one, id, 'c');
    await untilTaken(receiver, 8);
    other.peerLeft(id, 'a', 'ada', 'left');
    await untilTaken(receiver, 10);
    expect(receiver.story.filter((event) => / a/.test(event))).toEqual(VISIT);
  });

  test('a peer that comes back on another node has not left, although its former node is first to report', async () => {
    const { redis, receiver, accounts, id } = await openHook();
    await openWorker(redis, { sweepEveryMs: 100 });
    const [one, other] = [
      await openNode(redis, {}, { leaveHoldMs: 60_000 }),
      await openNode(redis),
    ];
    one.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    one.peerLeft(id, 'a', 'ada', 'replaced', true);
    // The list of accounts is read again, and the reported state compared with the real one.
    await accounts.update(id, { name: 'Ada L.' });
    visit(one, id, 'c');
    await untilTaken(receiver, 6);
    other.peerJoined(id, 'a', 'ada', 'websocket');
    other.peerLeft(id, 'a', 'ada', 'left');
    visit(other, id, 'd');
    await untilTaken(receiver, 10);
    await one.close();
    await untilTaken(receiver, 12);
    expect(receiver.story.filter((event) => / a/.test(event))).toEqual(VISIT);
    const leave = receiver.taken.find(
      ({ event }) => event.type === 'peer_left' && event.room === 'a',
    );
    expect(leave!.event).toMatchObject({ reason: 'left' });
  });

  test('a node that ends within the hold tells no leave of a peer that is on another node', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis);
    const [one, other] = [await openNode(redis), await openNode(redis)];
    one.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    one.peerLeft(id, 'a', 'ada', 'replaced', true);
    await one.close();
    other.peerJoined(id, 'a', 'ada', 'websocket');
    visit(other, id, 'd');
    await untilTaken(receiver, 6);
    expect(receiver.story.slice(0, 3)).toEqual([
      'room_started a',
      'peer_joined a/ada',
      'room_started d',
    ]);
  });

  test('a peer that came back before its leave was told is told to have left when its node died', async () => {
    const { redis, receiver, id } = await openHook();
    const store = await openWebhookStore(redis);
    const ada = { accountId: id, room: 'a', peer: 'ada', kind: 'websocket' } as const;
    const wallMs = Date.now();
    await store.register('one');
    await store.register('other');
    await store.tell('one', [{ number: 1, change: joined(ada, wallMs) }], 0);
    await store.tell('other', [{ number: 1, change: joined(ada, wallMs + 1) }], 0);
    await store.tell('one', [{ number: 2, change: joined(ada, wallMs + 2) }], 0);
    await store.tell('other', [{ number: 2, change: left(ada, 'replaced', wallMs + 3) }], 0);
    await openWorker(redis, { sweepEveryMs: 100, deadAfterMs: 500 });
    await untilTaken(receiver, 4);
    const { event } = receiver.taken.find(({ event: { type } }) => type === 'peer_left')!;
    expect(event).toMatchObject({ reason: 'closed' });
  });

  test('the leave and the new join of a peer that a former node still holds are both told', async () => {
    const { redis, receiver, id } = await openHook();
    const store = await openWebhookStore(redis);
    const [ada, bob] = ['ada', 'bob'].map(
      (peer) => ({ accountId: id, room: 'a', peer, kind: 'websocket' }) as const,
    ) as [PresentPeer, PresentPeer];
    const wallMs = Date.now();
    for (const node of ['one', 'other', 'renamed']) await store.register(node);
    await store.tell('one', [{ number: 1, change: joined(ada, wallMs) }], 0);
    await store.tell('other', [{ number: 1, change: joined(ada, wallMs + 1) }], 0);
    await store.tell('other', [{ number: 2, change: left(ada, 'left', wallMs + 2) }], 0);
    await store.tell('other', [{ number: 3, change: joined(ada, wallMs + 3) }], 0);
    await store.tell('other', [{ number: 4, change: joined(bob, wallMs + 4) }], 0);
    await store.tell('other', [{ number: 5, change: left(ada, 'left', wallMs + 5) }], 0);
    await store.tell('other', [{ number: 6, change: joined(ada, wallMs + 6) }], 0);
    // A node that takes another name holds the peer as before.
    await store.tell('other', [{ number: 7, change: left(ada, 'left', wallMs + 7) }], 0);
    await store.tellAgain('renamed', [ada], wallMs + 8);
    await openWorker(redis);
    await untilTaken(receiver, 9);
    expect(receiver.story).toEqual([
      ...VISIT,
      'room_started a',
      'peer_joined a/ada',
      'peer_joined a/bob',
      'peer_left a/ada',
      'peer_joined a/ada',
    ]);
    const times = receiver.taken.map(({ event }) => Date.parse(event.created_at) - wallMs);
    expect(times).toEqual([0, 0, 2, 2, 3, 3, 4, 5, 6]);
  });

  describe('a node that takes another name holds a peer that has moved from it meanwhile', () => {
    const BASE_MS = Date.now() - 60_000;
    const MOVED = 2;
    const LEFT = 4;

    /** Moves a peer from a node to another, which it leaves or not before the first one takes another name and tells the leave. */
    async function moveAndRename(hasLeft: boolean) {
      const { redis, receiver, id } = await openHook();
      const store = await openWebhookStore(redis);
      const ada = { accountId: id, room: 'a', peer: 'ada', kind: 'websocket' } as const;
      for (const node of ['one:1', 'other:1', 'one:2']) await store.register(node);
      const tellJoin = (node: string, number: number, ms: number) =>
        store.tell(node, [{ number, change: joined(ada, BASE_MS + ms) }], 0);
      const tellLeave = (node: string, number: number, reason: 'left' | 'replaced', ms: number) =>
        store.tell(node, [{ number, change: left(ada, reason, BASE_MS + ms) }], 0);
      await tellJoin('one:1', 1, 0);
      await tellJoin('other:1', 1, MOVED);
      if (hasLeft) await tellLeave('other:1', 2, 'left', LEFT);
      await store.tellAgain('one:2', [ada], BASE_MS + 5);
      await store.retire('one:1');
      await tellLeave('one:2', 1, 'replaced', MOVED);
      await store.takeOutDead(Date.now());
      await openWorker(redis);
      const leaveOf = () => receiver.taken.find(({ event: { type } }) => type === 'peer_left');
      return { receiver, store, tellJoin, tellLeave, leaveOf };
    }

    test('the next join of the peer tells no leave', async () => {
      const { receiver, tellJoin, tellLeave, leaveOf } = await moveAndRename(false);
      await tellJoin('other:1', 2, 6);
      await tellLeave('other:1', 3, 'left', 7);
      await untilTaken(receiver, 4);
      expect(receiver.story).toEqual(VISIT);
      expect(Date.parse(leaveOf()!.event.created_at)).toBe(BASE_MS + 7);
    });

    test('the death of the other node is told as such', async () => {
      const { receiver, store, leaveOf } = await moveAndRename(false);
      await store.retire('other:1');
      await store.takeOutDead(Date.now());
      await untilTaken(receiver, 4);
      expect(receiver.story).toEqual(VISIT);
      expect(leaveOf()!.event).toMatchObject({ reason: 'closed' });
    });

    test('a leave from the other node before is told as it was', async () => {
      const { receiver, leaveOf } = await moveAndRename(true);
      await untilTaken(receiver, 4);
      expect(receiver.story).toEqual(VISIT);
      expect(leaveOf()!.event).toMatchObject({
        reason: 'left',
        created_at: new Date(BASE_MS + LEFT).toISOString(),
      });
    });
  });

  test('a node that was taken for dead and is not tells nothing of a peer that another held all the time', async () => {
    const { redis, receiver, id } = await openHook();
    const store = await openWebhookStore(redis);
    const ada = { accountId: id, room: 'a', peer: 'ada', kind: 'websocket' } as const;
    const wallMs = Date.now();
    for (const node of ['other:1', 'one:1']) {
      await store.register(node);
      await store.tell(node, [{ number: 1, change: joined(ada, wallMs) }], 0);
    }
    await store.retire('one:1');
    await store.takeOutDead(wallMs);
    await store.register('one:2');
    await store.tellAgain('one:2', [ada], wallMs);
    await store.tell('one:2', [{ number: 2, change: joined(ada, wallMs + 1) }], 0);
    await store.tell('other:1', [{ number: 2, change: left(ada, 'replaced', wallMs) }], 0);
    await store.tell('one:2', [{ number: 3, change: left(ada, 'left', wallMs + 2) }], 0);
    await openWorker(redis);
    await untilTaken(receiver, 4);
    expect(receiver.story).toEqual(VISIT);
  });

  test('a node that reconnects to Redis reports no leave of a peer that moved from it meanwhile', async () => {
    const { redis, receiver, id } = await openHook();
    const one = await openNode(redis, {}, { beatEveryMs: 50, leaveHoldMs: 50 });
    const { client } = await openStore(redis);
    const listed = await client.sendCommand<string>(['CLIENT', 'LIST', 'TYPE', 'pubsub']);
    const subscribers = [...listed.matchAll(/^id=(\d+)/gm)].map(([, number]) => number!);
    const other = await openNode(redis);
    await openWorker(redis, { sweepEveryMs: 50 });
    const holders = () => client.hGet(webhookPeersKey(id, 'a'), 'ada');
    one.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    const [name = ''] = await client.hKeys(WEBHOOK_NODES);
    other.peerJoined(id, 'a', 'ada', 'websocket');
    await eventually('both hold the peer', async () => (await holders()) === '2');
    for (const number of subscribers) await client.sendCommand(['CLIENT', 'KILL', 'ID', number]);
    await eventually('another name', async () => !(await client.hExists(WEBHOOK_NODES, name)));
    one.peerLeft(id, 'a', 'ada', 'replaced', true);
    await eventually('one holds the peer', async () => (await holders()) === '1');
    other.peerJoined(id, 'a', 'ada', 'webrtc');
    other.peerLeft(id, 'a', 'ada', 'left');
    await untilTaken(receiver, 4);
    expect(receiver.story).toEqual(VISIT);
    expect(receiver.taken.at(-2)!.event).toMatchObject({ type: 'peer_left', reason: 'left' });
  });

  test('the leave of a peer and its new join on the node that still holds it are both told', async () => {
    const { redis, receiver, id } = await openHook();
    const store = await openWebhookStore(redis);
    const ada = { accountId: id, room: 'a', peer: 'ada', kind: 'websocket' } as const;
    const wallMs = Date.now();
    for (const node of ['one', 'other']) await store.register(node);
    await store.tell('one', [{ number: 1, change: joined(ada, wallMs) }], 0);
    await store.tell('other', [{ number: 1, change: joined(ada, wallMs + 1) }], 0);
    await store.tell('other', [{ number: 2, change: left(ada, 'left', wallMs + 2) }], 0);
    await store.tell('one', [{ number: 2, change: joined(ada, wallMs + 3) }], 0);
    await store.tell('one', [{ number: 3, change: left(ada, 'left', wallMs + 4) }], 0);
    await openWorker(redis);
    await untilTaken(receiver, 8);
    expect(receiver.story).toEqual([...VISIT, ...VISIT]);
    const times = receiver.taken.map(({ event }) => Date.parse(event.created_at) - wallMs);
    expect(times).toEqual([0, 0, 2, 2, 3, 3, 4, 4]);
  });

  test('the leave of a peer that was elsewhere only for a moment is told after the hold', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis);
    const node = await openNode(redis, {}, { leaveHoldMs: 50 });
    node.peerJoined(id, 'a', 'ada', 'websocket');
    node.peerLeft(id, 'a', 'ada', 'replaced', true);
    await untilTaken(receiver, 4);
    expect(receiver.story).toEqual(VISIT);
  });

  test.each([1, 2, 3])(
    'random calls, seed %i: each room is told as a sequence of calls one by one would be',
    async (seed) => {
      const { redis, receiver, id } = await openHook();
      await openWorker(redis);
      const nodes = [await openNode(redis), await openNode(redis)];
      const random = seededRandom(seed);
      const pick = (most: number) => Math.floor(random() * most);
      const [rooms, peers] = [
        ['a', 'b', 'c'],
        ['ada', 'bob', 'eve'],
      ];
      for (let step = 0; step < 300; step += 1) {
        const node = nodes[pick(2)]!;
        const [room, peer] = [rooms[pick(3)]!, peers[pick(3)]!];
        if (random() < 0.5) node.peerJoined(id, room, peer, 'websocket');
        else node.peerLeft(id, room, peer, 'left');
        if (random() < 0.2) await new Promise((resolve) => setTimeout(resolve, pick(3)));
      }
      for (const node of nodes) {
        for (const room of rooms) for (const peer of peers) node.peerLeft(id, room, peer, 'left');
      }
      await Promise.all(nodes.map((node) => node.close()));
      await eventually('all is sent', async () => (await countWaiting(redis)).events === 0);
      expect(rooms.flatMap((room) => faultsOf(eventsOf(receiver, room)))).toEqual([]);
      expect(receiver.mostAtOnce).toBe(1);
    },
  );

  /**
   * Returns events that break the rules: a room starts before the first peer joins and ends after the last left; a
   * peer that joins is not there yet, one that leaves is.
   */
  function faultsOf(events: WebhookEvent[]): WebhookEvent[] {
    const present = new Set<string>();
    let isOpen = false;
    const isRight = (event: WebhookEvent): boolean => {
      const wasOpen = isOpen;
      if (event.type === 'room_started' || event.type === 'room_ended') isOpen = !isOpen;
      if (event.type === 'room_started') return !wasOpen;
      if (event.type === 'room_ended') return wasOpen && present.size === 0;
      if (event.type === 'peer_left') return wasOpen && present.delete(event.peer);
      return event.type === 'peer_joined' && wasOpen && present.size < present.add(event.peer).size;
    };
    const faults = events.filter((event) => !isRight(event));
    return isOpen || events.length === 0 ? [...faults, ...events.slice(-1)] : faults;
  }

  const eventsOf = (receiver: WebhookReceiver, room: string) =>
    receiver.taken
      .map(({ event }) => event)
      .filter((event) => 'room' in event && event.room === room);

  test.each([1, 2, 3, 4])(
    'random changes, some told twice, and new names of nodes, seed %i: the events are those of a model',
    async (seed) => {
      const redis = await openRedis();
      const store = await openWebhookStore(redis);
      const outbox = await openOutbox(redis);
      const names = { one: 'one:1', other: 'other:1' };
      for (const name of Object.values(names)) await store.register(name);
      const random = seededRandom(seed);
      const pick = <T>(of: T[]): T => of[Math.floor(random() * of.length)]!;
      /** Peers that are there, and their nodes. */
      const model = new Set<string>();
      /** Node to which each peer came last, and the peers that have left it while the other node holds them. */
      const latest = new Map<string, string>();
      const gone = new Set<string>();
      const expected: string[] = [];
      const isThere = (start: string) => [...model].some((who) => who.startsWith(start));
      const numbers = { one: 0, other: 0 };
      const presentOf = (peer: string): PresentPeer => ({
        accountId: 1,
        room: 'a',
        peer,
        kind: 'websocket',
      });
      const rename = async (node: 'one' | 'other', step: number) => {
        const former = names[node];
        names[node] = `${node}:${step + 2}`;
        await store.register(names[node]);
        const held = ['ada', 'bob', 'eve'].filter((peer) => model.has(`${peer}/${node}`));
        await store.tellAgain(names[node], held.map(presentOf), Date.now());
        await store.retire(former);
        await store.takeOutDead(Date.now());
      };
      for (let step = 0; step < 400; step += 1) {
        const [node, peer] = [pick(['one', 'other'] as const), pick(['ada', 'bob', 'eve'])];
        if (random() < 0.2) await rename(pick(['one', 'other'] as const), step);
        const present = presentOf(peer);
        const isJoin = random() < 0.5;
        const [wasPeer, wasRoom] = [isThere(`${peer}/`), isThere('')];
        const [wasHere, wasGone] = [model.has(`${peer}/${node}`), gone.has(peer)];
        if (isJoin) model.add(`${peer}/${node}`);
        else model.delete(`${peer}/${node}`);
        if (isJoin) latest.set(peer, node);
        if (isJoin || !isThere(`${peer}/`)) gone.delete(peer);
        else if (wasHere && latest.get(peer) === node) gone.add(peer);
        if (isJoin && wasGone) {
          const isAlone = [...model].every((who) => who.startsWith(`${peer}/`));
          expected.push('peer_left', ...(isAlone ? ['room_ended', 'room_started'] : []));
          expected.push('peer_joined');
        }
        if (!wasRoom && isThere('')) expected.push('room_started');
        if (wasPeer !== isThere(`${peer}/`)) expected.push(isJoin ? 'peer_joined' : 'peer_left');
        if (wasRoom && !isThere('')) expected.push('room_ended');
        numbers[node] += 1;
        const change = isJoin ? joined(present, Date.now()) : left(present, 'left', Date.now());
        const numbered = { number: numbers[node], change };
        await store.tell(names[node], [numbered], 0);
        if (random() < 0.3) await store.tell(names[node], [numbered], 0);
      }
      const told: string[] = [];
      for (;;) {
        const [head] = (await outbox.heads(1, 0, { names: [], skipped: 0, rooms: 1 })).heads;
        if (head === undefined) break;
        told.push((JSON.parse(head.event) as WebhookEvent).type);
        await outbox.remove(1, head, false);
      }
      expect(told).toEqual(expected);
      expect(await outbox.count()).toEqual({
        rooms: 0,
        events: 0,
        oldestMs: undefined,
        dropped: 0,
      });
    },
  );

  test('a node that dies: its peers are told to have left, those of the other stay', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis, { sweepEveryMs: 100, deadAfterMs: 1000 });
    const store = await openWebhookStore(redis);
    const living = await openNode(redis);
    living.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    const beating = setInterval(() => void tellAlive(), 200);
    cleanUps.push(() => clearInterval(beating));
    const [node = ''] = (await store.readNodes()).keys();
    const tellAlive = () => store.tell(node, [], 0);
    await store.register('doomed');
    await store.tellAgain(
      'doomed',
      [
        { accountId: id, room: 'a', peer: 'ada', kind: 'websocket' },
        { accountId: id, room: 'a', peer: 'bob', kind: 'webrtc' },
        { accountId: id, room: 'b', peer: 'eve', kind: 'webrtc' },
      ],
      Date.now(),
    );
    await untilTaken(receiver, 8);
    expect(receiver.story.slice(5).toSorted()).toEqual([
      'peer_left a/bob',
      'peer_left b/eve',
      'room_ended b',
    ]);
    expect([...(await store.readNodes()).keys()]).toEqual([node]);
  });

  test('a node whose heartbeats a full Redis refuses for longer than the dead time is not taken for dead', async () => {
    const deadAfterMs = 1000;
    const { redis, receiver, id } = await openHook();
    await openWorker(redis, { sweepEveryMs: 50, deadAfterMs });
    const node = await openNode(redis, {}, { beatEveryMs: 50, retryAfterMs: 50 });
    const { client } = await openStore(redis);
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    await client.configSet('maxmemory', '1');
    await delay(2 * deadAfterMs);
    await client.configSet('maxmemory', '0');
    node.peerJoined(id, 'a', 'bob', 'websocket');
    await eventually('bob is told', () => receiver.story.includes('peer_joined a/bob'));
    expect(receiver.story).toEqual(['room_started a', 'peer_joined a/ada', 'peer_joined a/bob']);
  });

  test('reap() on a full Redis is refused, and leaves the node alone', async () => {
    const redis = await openRedis();
    const store = await openWebhookStore(redis);
    const { client } = await openStore(redis);
    await store.register('node');
    await client.configSet('maxmemory', '1');
    await expect(store.reap('node', '0')).rejects.toThrow('OOM');
    await client.configSet('maxmemory', '0');
    expect([...(await store.readNodes()).keys()]).toEqual(['node']);
  });

  test('a node that ends counts for as long as it keeps places, longer than a silent one if need be', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis, { sweepEveryMs: 50, deadAfterMs: 200, leaveHoldMs: 1 });
    const node = await openNode(redis, { keepMs: 2000 }, { beatEveryMs: 20 });
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    await node.close();
    const endedAtMs = performance.now();
    await untilTaken(receiver, 4);
    expect(performance.now() - endedAtMs).toBeGreaterThan(1900);
    expect(receiver.story).toEqual(VISIT);
    const { client } = await openStore(redis);
    const keys = await client.keys(`${WEBHOOK_PREFIX}*`);
    expect(keys.filter((key) => /nodes|departed|dead|node:/.test(key))).toEqual([]);
  });

  test('a node that ends and keeps places for a moment counts for half as long as a silent one', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis, { sweepEveryMs: 50, deadAfterMs: 10_000, leaveHoldMs: 50 });
    const node = await openNode(redis, { keepMs: 50 });
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    await node.close();
    await untilTaken(receiver, 4, 9000);
    expect(receiver.story).toEqual(VISIT);
  });

  test.each(['before', 'after'])(
    'the leave of a peer that came to another node %s its own ended is told at once',
    async (when) => {
      const { redis, receiver, id } = await openHook();
      await openWorker(redis);
      const [one, other] = [await openNode(redis), await openNode(redis)];
      one.peerJoined(id, 'a', 'ada', 'websocket');
      one.peerJoined(id, 'b', 'bob', 'websocket');
      await untilTaken(receiver, 4);
      if (when === 'after') await one.close();
      other.peerJoined(id, 'a', 'ada', 'websocket');
      visit(other, id, 'c');
      await untilTaken(receiver, 8);
      if (when === 'before') await one.close();
      other.peerLeft(id, 'a', 'ada', 'left');
      await untilTaken(receiver, 10, 10_000);
      const isInA = (event: string) => event.endsWith(' a') || event.includes(' a/');
      expect(receiver.story.filter(isInA)).toEqual(VISIT);
      // Another peer may still come back.
      expect(receiver.story).not.toContain('peer_left b/bob');
    },
  );

  test('a node that a worker of an earlier version has removed is forgotten', async () => {
    const { redis, receiver, id } = await openHook();
    const node = await openNode(redis);
    const { client } = await openStore(redis);
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await eventually('it is written', async () => (await countWaiting(redis)).events === 2);
    await node.close();
    await client.del(WEBHOOK_NODES);
    await openWorker(redis, { sweepEveryMs: 50 });
    await untilTaken(receiver, 4);
    await eventually('it is forgotten', async () => !(await client.exists(WEBHOOK_DEPARTED_NODES)));
  });

  test('a node that was taken for dead tells again who is with it', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis, { sweepEveryMs: 100, deadAfterMs: 500 });
    const node = await openNode(redis);
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await eventually('it is taken for dead', () => receiver.story.includes('room_ended a'));
    node.peerJoined(id, 'a', 'bob', 'websocket');
    await eventually('it tells again', () => receiver.story.includes('peer_joined a/bob'));
    // Between two heartbeats it is taken for dead anew.
    expect(receiver.story.slice(0, 7)).toEqual([
      ...VISIT,
      'room_started a',
      'peer_joined a/ada',
      'peer_joined a/bob',
    ]);
  });
});

describe('a webhook that fails', () => {
  test('500, a redirect, silence, slowness: tried again with the same id, and in order', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis, { requestTimeoutMs: 300 });
    const node = await openNode(redis);
    const random = seededRandom(1);
    receiver.answer = async () => {
      const outcome = random();
      if (outcome < 0.1) return new Promise<number>(() => {});
      if (outcome < 0.2) await new Promise((resolve) => setTimeout(resolve, 100));
      if (outcome < 0.4) return 500;
      return outcome < 0.5 ? 302 : 200;
    };
    for (let index = 0; index < 4; index += 1) {
      visit(node, id);
      visit(node, id, 'b');
    }
    await untilTaken(receiver, 32);
    const storyIn = (room: string) => receiver.story.filter((event) => event.includes(` ${room}`));
    expect(storyIn('a')).toEqual([...VISIT, ...VISIT, ...VISIT, ...VISIT]);
    expect(storyIn('b').length).toBe(16);
    expect(receiver.received.length).toBeGreaterThan(32);
    expect(receiver.mostAtOnce).toBe(1);
  });

  test('no endpoint: waiting events are sent once there is one', async () => {
    const { redis, accounts, id } = await openHook();
    const port = await freePort();
    await accounts.update(id, { webhook_url: `http://127.0.0.1:${port}/` });
    await openWorker(redis);
    visit(await openNode(redis), id);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const back = await WebhookReceiver.start(port);
    cleanUps.push(() => back.close());
    await untilTaken(back, 4);
    expect(back.story).toEqual(VISIT);
  });

  test('one that hangs, with many rooms, does not hold up the webhook of another account', async () => {
    const { redis, receiver, accounts, id } = await openHook();
    const other = await WebhookReceiver.start();
    cleanUps.push(() => other.close());
    const made = { name: 'Bob', email: 'bob@b', plan: 'pro', webhook_url: other.url } as const;
    const { id: otherId } = await accounts.create(made);
    // None of the requests that hang ends before the test does.
    await openWorker(redis, { requestTimeoutMs: 600_000 });
    receiver.answer = () => new Promise<number>(() => {});
    const node = await openNode(redis);
    for (let room = 0; room < 400; room += 1) visit(node, id, `room ${room}`);
    await eventually('it hangs', () => receiver.received.length >= 20);
    visit(node, otherId);
    await untilTaken(other, 4);
    expect(receiver.received.length).toBe(20);
  });
});

describe('faults', () => {
  test('a worker that is killed in the middle of a request: another sends the same event again, and the rest', async () => {
    const { redis, receiver, id } = await openHook();
    const program = fileURLToPath(new URL('../support/webhook-worker.ts', import.meta.url));
    const doomed = spawn(process.execPath, [program, redis.url], { stdio: 'inherit' });
    receiver.answer = () => new Promise<number>(() => {});
    visit(await openNode(redis), id);
    await eventually('a request', () => receiver.received.length === 1);
    const exited = once(doomed, 'exit');
    doomed.kill('SIGKILL');
    await exited;
    receiver.answer = () => 204;
    await openWorker(redis);
    await untilTaken(receiver, 4);
    expect(receiver.story).toEqual(VISIT);
    expect(receiver.received[0]!.event).toEqual(receiver.taken[0]!.event);
  });

  test.each(['hangs', 'is killed'] as const)(
    'Redis %s and comes back: nothing is lost, all is in order',
    async (what) => {
      const folder = await mkdtemp(join(tmpdir(), 'partyline-redis-'));
      cleanUps.push(() => rm(folder, { recursive: true }));
      const redis = await TestRedis.start(folder);
      cleanUps.push(() => redis.kill());
      const { receiver, id } = await openHook(redis);
      const commands = { commandTimeoutMs: 1000 };
      await openWorker(redis, { sweepEveryMs: 100 }, {}, { redis: commands });
      const node = await openNode(redis, {}, { retryAfterMs: 200 }, commands);
      const tell = vi.spyOn(WebhookStore.prototype, 'tell');
      onTestFinished(() => tell.mockRestore());
      node.peerJoined(id, 'a', 'ada', 'websocket');
      await untilTaken(receiver, 2);
      if (what === 'hangs') redis.hang();
      else await redis.kill();
      node.peerJoined(id, 'a', 'bob', 'websocket');
      visit(node, id, 'a', 'eve');
      await eventually('the node has tried several times', () => {
        const failed = tell.mock.settledResults.filter(({ type }) => type === 'rejected');
        return failed.length >= 3;
      });
      node.peerLeft(id, 'a', 'ada', 'left');
      if (what === 'hangs') redis.goOn();
      else await redis.restart();
      await expect
        .poll(() => receiver.story)
        .toEqual([
          'room_started a',
          'peer_joined a/ada',
          'peer_joined a/bob',
          'peer_joined a/eve',
          'peer_left a/eve',
          'peer_left a/ada',
        ]);
    },
  );

  /** A node whose Redis can be set back to what it knew of webhooks at an earlier time. */
  async function openForgetfulNode() {
    const { redis, receiver, id } = await openHook();
    const node = await openNode(redis, {}, { beatEveryMs: 50, retryAfterMs: 1000 });
    const { client } = await openStore(redis);
    const save = async () => {
      const keys = await client.keys(`${WEBHOOK_PREFIX}*`);
      for (const key of keys) await client.copy(key, key.replace(WEBHOOK_PREFIX, 'saved:'));
    };
    /** Cuts the subscriptions of all, which thereby learn that they were disconnected. */
    const cut = () => client.sendCommand(['CLIENT', 'KILL', 'TYPE', 'pubsub']);
    /** Puts back what was saved; the node then takes another name. */
    const putBack = async () => {
      const names = () => client.hKeys(WEBHOOK_NODES);
      const before = await names();
      // At once: a node that beats meanwhile would register again.
      const putting = client.multi().del(await client.keys(`${WEBHOOK_PREFIX}*`));
      for (const key of await client.keys('saved:*')) {
        putting.copy(key, key.replace('saved:', WEBHOOK_PREFIX));
      }
      await putting.exec();
      await cut();
      await eventually('another name', async () =>
        (await names()).some((name) => !before.includes(name)),
      );
    };
    const untilHeld = (peer: string, isHeld: boolean) =>
      eventually(`${peer} is ${isHeld ? 'known' : 'gone'}`, async () => {
        const holders = await client.hGet(webhookPeersKey(id, 'a'), peer);
        return (holders !== null) === isHeld;
      });
    return { redis, receiver, id, node, save, cut, putBack, untilHeld };
  }

  test('a leave that Redis acknowledged and then lost is told after the reconnect', async () => {
    const { redis, receiver, id, node, save, putBack, untilHeld } = await openForgetfulNode();
    node.peerJoined(id, 'a', 'ada', 'websocket');
    node.peerJoined(id, 'a', 'bob', 'websocket');
    await untilHeld('bob', true);
    await save();
    node.peerLeft(id, 'a', 'ada', 'left');
    await untilHeld('ada', false);
    await putBack();
    await openWorker(redis, { sweepEveryMs: 50 });
    await untilTaken(receiver, 4);
    node.peerLeft(id, 'a', 'bob', 'left');
    await untilTaken(receiver, 6);
    expect(receiver.story).toEqual([
      'room_started a',
      'peer_joined a/ada',
      'peer_joined a/bob',
      'peer_left a/ada',
      'peer_left a/bob',
      'room_ended a',
    ]);
  });

  test('a join that Redis acknowledged and then lost is told again, so that the leave is told', async () => {
    const { redis, receiver, id, node, save, putBack, untilHeld } = await openForgetfulNode();
    node.peerJoined(id, 'b', 'bob', 'websocket');
    await eventually('bob is told', async () => (await countWaiting(redis)).events === 2);
    await save();
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await untilHeld('ada', true);
    await putBack();
    node.peerLeft(id, 'a', 'ada', 'left');
    await openWorker(redis, { sweepEveryMs: 50 });
    await untilTaken(receiver, 6);
    expect(receiver.story.filter((event) => event.includes(' a'))).toEqual(VISIT);
  });

  test('a leave that was written as the connection was lost is told once', async () => {
    const { redis, receiver, id, node, cut, untilHeld } = await openForgetfulNode();
    await openWorker(redis, { sweepEveryMs: 50 });
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await untilHeld('ada', true);
    const spy = vi.spyOn(WebhookStore.prototype, 'tell');
    cleanUps.push(() => spy.mockRestore());
    spy.mockImplementation(async function (this: WebhookStore, name, changes, dropped) {
      if (changes.length === 0) return true;
      spy.mockRestore();
      await this.tell(name, changes, dropped);
      await cut();
      throw new Error('the answer was lost');
    });
    node.peerLeft(id, 'a', 'ada', 'left');
    await untilHeld('ada', false);
    visit(node, id, 'b');
    await eventually('b is over', () => receiver.story.includes('room_ended b'));
    expect(receiver.story.filter((event) => event.includes(' a'))).toEqual(VISIT);
  });

  test('more to tell than is kept while Redis is away: what is so in the end is told, the rest counted', async () => {
    const { redis, receiver, id } = await openHook();
    await openWorker(redis);
    const node = await openNode(redis, { maxWaiting: 10 });
    node.peerJoined(id, 'a', 'ada', 'websocket');
    await untilTaken(receiver, 2);
    redis.hang();
    node.peerJoined(id, 'a', 'bob', 'websocket');
    node.peerLeft(id, 'a', 'ada', 'left');
    for (let index = 0; index < 25; index += 1) visit(node, id, 'a', `guest ${index}`);
    redis.goOn();
    await eventually('all is told', () => receiver.story.includes('peer_left a/ada'));
    expect(receiver.story).toContain('peer_joined a/bob');
    expect(receiver.story).not.toContain('room_ended a');
    const { dropped } = await countWaiting(redis);
    expect(dropped).toBeGreaterThan(0);
    node.peerJoined(id, 'a', 'carol', 'websocket');
    await eventually('carol is told', () => receiver.story.includes('peer_joined a/carol'));
    expect((await countWaiting(redis)).dropped).toBe(dropped);
  });

  test('no event is left behind that comes as its room has just been emptied', async () => {
    const { redis, receiver, id } = await openHook();
    // It must not need the next round of the worker.
    await openWorker(redis, {}, {}, { jobs: { lockMs: 600_000 } });
    const node = await openNode(redis);
    receiver.answer = ({ event }) => {
      // The next one comes while the job of this one ends: at once, and a moment later.
      if (event.type === 'room_ended') {
        const again = receiver.taken.length;
        if (again < 400) setTimeout(() => visit(node, id), (again / 40) * Math.random());
      }
      return 200;
    };
    visit(node, id);
    await untilTaken(receiver, 404);
    expect(receiver.received.length).toBe(404);
  });
});

test('a gateway tells that the minutes are used up, and /metrics has the counts', async () => {
  const { redis, receiver, accounts } = await openHook();
  const operator = 'operator-key-1234';
  const gateway = await openGateway({
    REDIS_URL: redis.url,
    USAGE_WORKERS: '1',
    OPERATOR_KEY: operator,
  });
  const { id, apiKey } = await createAccount(redis, 'free');
  await accounts.update(id, { webhook_url: receiver.url });
  await enter(gateway, 'ada', { api_key: apiKey });
  await new UsageStore(await openStore(redis)).write([
    {
      writer: 'before',
      accountId: id,
      minute: new Date().toISOString().slice(0, 16),
      room: 'a',
      websocketMs: 100 * 60_000,
      webrtcMs: 0,
      peakPeers: 1,
    },
  ]);
  const isTold = () => receiver.story.includes('quota_exhausted');
  await eventually('it is told', isTold);
  const metrics = await (await fetch(`${gateway.url}/metrics`)).text();
  expect(metrics).toMatch(/^partyline_webhook_rooms_waiting \d/m);
  expect(metrics).toMatch(/^partyline_webhook_events_dropped 0/m);
  expect(metrics).toMatch(/^partyline_webhook_events_waiting \d/m);
  expect(metrics).toMatch(/^partyline_webhook_oldest_event_age_seconds \d/m);
  expect(metrics).toMatch(/^partyline_usage_workers 1/m);
  const isSent = async () => (await countWaiting(redis)).events === 0;
  await eventually('all is sent', isSent);
  const response = await fetch(`${gateway.url}/api/admin/accounts/${id}/webhook`, {
    headers: { authorization: `Bearer ${operator}` },
  });
  expect(await response.json()).toEqual({ waiting: 0, dropped: 0 });
});
