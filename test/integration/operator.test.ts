import { describe, expect, test } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { Nodes } from '../../src/cluster/nodes.ts';
import type {
  NodeDescription,
  NodeList,
  RoomDescription,
  RoomList,
} from '../../src/operator/schemas.ts';
import { VERSION } from '../../src/version.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { keepPlaying, opusTone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, openNodes, openStore, connect, enter, cleanUps } = useStack();

const OPERATOR_KEY = 'operator-key-of-the-tests';
const ADMIN = { OPERATOR_KEY };
const KEEP = { ...ADMIN, RESUME_MS: '15000' };
/** However busy the machine is, the other node answers in time. */
const PATIENT = { nodes: { answerWithinMs: 10_000 } };

const admin = (
  { url }: { url: string },
  path: string,
  { method = 'GET', key = OPERATOR_KEY, body = {} } = {},
) =>
  fetch(`${url}/api/admin/${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    ...(method === 'POST' && { body: JSON.stringify(body) }),
  });
async function read<T>(node: { url: string }, path: string): Promise<T> {
  const response = await admin(node, path);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}
const nodesOf = (node: { url: string }) => read<NodeList>(node, 'nodes');
const roomsOf = (node: { url: string }, query = '') => read<RoomList>(node, `rooms?${query}`);
const roomOf = (node: { url: string }, account: number, room: string) =>
  read<RoomDescription>(node, `rooms/${account}/${encodeURIComponent(room)}`);
const idOf = async (node: { url: string }) => (await read<NodeDescription>(node, 'nodes/self')).id;
const kick = (node: { url: string }, account: number, peer: string) =>
  admin(node, `accounts/${account}/peers/${encodeURIComponent(peer)}/kick`, { method: 'POST' });

const metric = async ({ url }: { url: string }, name: string) => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^partyline_${name} (.*)$`, 'm').exec(text)?.[1]);
};

test('whichever node is asked tells of all: media workers, load, sessions, peers, pipes, kept places', async () => {
  const [a, b] = await openNodes(2, KEEP, undefined, PATIENT);
  await enter(a!, 'alice');
  await enter(b!, 'bob');
  await connect(b!, { peer: 'waiting', room: '__lobby__' });
  const lost = await enter(b!, 'lost', { room: 'b' });
  lost.vanish();
  const [idA, idB] = [await idOf(a!), await idOf(b!)];
  const ofNode = async (id: string) => {
    const { nodes, unreachable } = await nodesOf(a!);
    expect(unreachable).toEqual([]);
    return nodes.find((node) => node.id === id);
  };
  await eventually('all is told', async () => {
    const [one, other] = [await ofNode(idA), await ofNode(idB)];
    return one?.pipes.ends === 1 && other?.pipes.ends === 1 && other.kept_places === 1;
  });
  expect(await ofNode(idA)).toMatchObject({
    name: expect.stringMatching(new RegExp(`.:${process.pid}$`)),
    version: VERSION,
    state: 'running',
    load: { level: 'normal', cpu: {}, loop_delay_ms: {} },
    media_workers: [{ index: 0, state: 'running', restarts: 0, routers: 1 }],
    sessions: 1,
    rooms: 1,
    peers: { websocket: 1, webrtc: 0 },
    kept_places: 0,
    pipes: { ends: 1, nodes: 1 },
    dropped: { late: expect.any(Number) },
  });
  expect(await ofNode(idB)).toMatchObject({ sessions: 2, rooms: 2, peers: { websocket: 1 } });
  expect((await nodesOf(b!)).nodes.map(({ id }) => id).toSorted()).toEqual([idA, idB].toSorted());
  await eventually('both are counted', async () => (await metric(a!, 'nodes')) === 2);
  expect(await metric(b!, 'nodes')).toBe(2);
  expect(await metric(a!, 'pipes')).toBe(1);
  expect(await metric(b!, 'kept_places')).toBe(1);
});

test('rooms of all nodes, with who is there, where, and how loud', async () => {
  const [a, b] = await openNodes(2, KEEP, undefined, PATIENT);
  const account = a!.demo!.account.id;
  const room = 'küche/1 %2F?#';
  const alice = await enter(a!, 'alice', { room });
  await enter(b!, 'bob', { room });
  const lost = await enter(b!, 'lost', { room });
  await enter(b!, 'carol', { room: 'other' });
  lost.vanish();
  const speech = keepPlaying(alice, await opusTone(1000, 0.5, 1000));
  cleanUps.push(() => speech.close());
  await eventually('alice talks, once, though both hear her', async () => {
    const { rooms } = await roomsOf(b!);
    return rooms.find((each) => each.room === room)?.talking === 1;
  });
  const { rooms, next } = await roomsOf(b!);
  expect(next).toBeUndefined();
  expect(rooms).toMatchObject([
    { account_id: account, room, websocket: 3, webrtc: 0, away: 1, talking: 1 },
    { account_id: account, room: 'other', websocket: 1, away: 0, talking: 0 },
  ]);
  const { peers, unreachable } = await roomOf(b!, account, room);
  expect(unreachable).toEqual([]);
  const [idA, idB] = [await idOf(a!), await idOf(b!)];
  expect(peers).toMatchObject([
    { peer: 'alice', kind: 'websocket', node: idA, away: false, audio: { dropped_ms: 0 } },
    { peer: 'bob', node: idB, away: false },
    { peer: 'lost', node: idB, away: true },
  ]);
  expect(peers[0]!.level_dbov).toBeGreaterThan(-20);
  expect(peers.map(({ talking }) => talking)).toEqual([true, false, false]);
  expect(peers[1]).not.toHaveProperty('level_dbov');
  const again = await enter(a!, 'lost', { room });
  await again.next('welcome');
  await eventually('it is back, once', async () => {
    const now = (await roomOf(b!, account, room)).peers.filter(({ peer }) => peer === 'lost');
    return now.length === 1 && now[0]!.node === idA && !now[0]!.away;
  });
  expect((await admin(a!, `rooms/${account}/nowhere`)).status).toBe(404);
  expect((await admin(a!, 'rooms/0/nowhere')).status).toBe(400);
});

test('a peer that talks in an unknown format is told to talk, without a level', async () => {
  const [a, b] = await openNodes(2, ADMIN, undefined, PATIENT);
  const account = a!.demo!.account.id;
  const alice = await enter(a!, 'alice', { room: 'kitchen', audio: 'opaque' });
  await enter(b!, 'bob', { room: 'kitchen', audio: 'opaque' });
  const secrets = keepPlaying(alice, Array(50).fill(Buffer.from('secret')));
  cleanUps.push(() => secrets.close());
  await eventually('alice talks, once', async () => {
    const { rooms } = await roomsOf(b!);
    return rooms[0]?.talking === 1;
  });
  const { peers } = await roomOf(b!, account, 'kitchen');
  expect(peers).toMatchObject([
    { peer: 'alice', talking: true },
    { peer: 'bob', talking: false },
  ]);
  expect(peers[0]).not.toHaveProperty('level_dbov');
});

test('the list of rooms comes in parts, each room once, and may be searched', async () => {
  const [a, b] = await openNodes(2, ADMIN, undefined, PATIENT);
  const names = ['Ärger', 'a/b', 'kitchen 1', 'kitchen 2', 'kitchen 3'];
  for (const [index, room] of names.entries()) {
    await enter(index % 2 ? a! : b!, `one-${index}`, { room });
    if (index > 2) await enter(index % 2 ? b! : a!, `two-${index}`, { room });
  }
  const seen: string[] = [];
  let after = '';
  do {
    const query = new URLSearchParams({ limit: '2', ...(after && { after }) });
    const { rooms, next = '' } = await roomsOf(a!, String(query));
    expect(rooms.length).toBeLessThanOrEqual(2);
    seen.push(...rooms.map(({ room }) => room));
    after = next;
  } while (after);
  expect(seen).toEqual(['a/b', 'kitchen 1', 'kitchen 2', 'kitchen 3', 'Ärger']);
  const { rooms } = await roomsOf(b!, 'search=KITCHEN');
  expect(rooms.map(({ room, websocket }) => [room, websocket])).toEqual([
    ['kitchen 1', 1],
    ['kitchen 2', 2],
    ['kitchen 3', 2],
  ]);
  expect((await admin(a!, 'rooms?after=nonsense')).status).toBe(400);
  expect((await admin(a!, 'rooms?limit=0')).status).toBe(400);
});

test('a kick closes the peer on the other node with 4403, whatever its name', async () => {
  const [a, b] = await openNodes(2, KEEP, undefined, PATIENT);
  const account = a!.demo!.account.id;
  const watching = await enter(a!, 'watching');
  for (const name of ['a/b%2F ?#ü', '😀'.repeat(128)]) {
    const peer = await enter(b!, name);
    expect((await kick(a!, account, name)).status).toBe(204);
    expect(await peer.next('error')).toMatchObject({
      code: 'forbidden',
      message: 'Removed by an operator.',
    });
    expect(await peer.closed).toBe(4403);
    await watching.until('peer_left', () =>
      watching.messages.find((message) => message.type === 'peer_left' && message.peer === name),
    );
    expect((await kick(a!, account, name)).status).toBe(404);
  }
  expect((await kick(a!, account + 1, 'watching')).status).toBe(404);
  expect((await kick(a!, account, 'watching')).status).toBe(204);
  expect(await watching.closed).toBe(4403);
});

test('a mute holds for a client and for a browser on the other node, and each is told, as if it had asked for it', async () => {
  const [a, b] = await openNodes(2, KEEP, undefined, PATIENT);
  const account = a!.demo!.account.id;
  const watching = await enter(a!, 'watching');
  const client = await enter(b!, 'client');
  const page = await connect(b!, { peer: 'page', room: '__lobby__' });
  await page.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const mute = (peer: string, muted: boolean) =>
    admin(a!, `accounts/${account}/peers/${peer}/mute`, { method: 'POST', body: { muted } });
  expect((await mute('client', true)).status).toBe(204);
  expect(await client.next('configured')).toMatchObject({ mute: true });
  expect(await watching.next('peer_changed')).toMatchObject({ peer: 'client', muted: true });
  expect((await mute('page', true)).status).toBe(204);
  expect(await page.next('configured')).toMatchObject({ mute: true });
  const late = await enter(a!, 'late');
  const { peers } = await late.next('joined');
  expect(peers.find(({ peer }) => peer === 'client')).toMatchObject({ muted: true });
  expect((await mute('client', false)).status).toBe(204);
  expect(await late.next('peer_changed')).toMatchObject({ peer: 'client', muted: false });
  expect((await mute('nobody', true)).status).toBe(404);
});

describe('a mute holds for a place that is kept', () => {
  /** Two nodes; alice is on the second, and somebody watches on the first. */
  const open = async () => {
    const [a, b] = await openNodes(2, KEEP, undefined, PATIENT);
    const account = a!.demo!.account.id;
    const mute = async (muted: boolean) => {
      const path = `accounts/${account}/peers/alice/mute`;
      return (await admin(a!, path, { method: 'POST', body: { muted } })).status;
    };
    const isMuted = async () => {
      const { peers } = await (await enter(a!, 'late')).next('joined');
      return peers.find(({ peer }) => peer === 'alice')?.muted;
    };
    const isAway = () =>
      eventually('alice is away', async () => {
        const { peers } = await roomOf(a!, account, 'a');
        return peers.find(({ peer }) => peer === 'alice')?.away === true;
      });
    return { a: a!, b: b!, watching: await enter(a!, 'watching'), mute, isMuted, isAway };
  };

  test.each(['the same node', 'another node'])(
    'of a client, which is told when it is back on %s',
    async (where) => {
      const { a, b, watching, mute, isMuted, isAway } = await open();
      const alice = await enter(b, 'alice');
      const { session_id, resume_token } = await alice.next('welcome');
      alice.vanish();
      await isAway();
      expect(await mute(true)).toBe(204);
      expect(await watching.next('peer_changed')).toMatchObject({ peer: 'alice', muted: true });
      const node = where === 'the same node' ? b : a;
      const session = { peer: 'alice', room: '__lobby__', session_id, resume_token };
      const again = await connect(node, session);
      expect(await again.next('welcome')).toMatchObject({ resumed: true, mute: true });
      await again.next('joined');
      expect(await isMuted()).toBe(true);
    },
  );

  test('of a browser, whose sound goes on while it is away, also while it is back in the lobby', async () => {
    const { b, watching, mute, isAway } = await open();
    const alice = await connect(b, { peer: 'alice', room: '__lobby__' });
    await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    alice.vanish();
    await isAway();
    expect(await mute(true)).toBe(204);
    const changes = () => watching.messages.filter(({ type }) => type === 'peer_changed');
    await watching.until('the first', () => changes()[0]);
    const again = await connect(b, { peer: 'alice', room: '__lobby__' });
    await again.next('welcome');
    expect(await mute(false)).toBe(204);
    expect(await again.next('configured')).toMatchObject({ mute: false });
    await watching.until('the second', () => changes()[1]);
    expect(changes()).toMatchObject([{ muted: true }, { muted: false }]);
  });
});

test('a kick gives up a place that is kept on the other node', async () => {
  const [a, b] = await openNodes(2, KEEP, undefined, PATIENT);
  const watching = await enter(a!, 'watching');
  const lost = await enter(b!, 'lost');
  await watching.next('peer_joined');
  lost.vanish();
  await eventually('its place is kept', async () => (await metric(b!, 'kept_places')) === 1);
  expect((await kick(a!, a!.demo!.account.id, 'lost')).status).toBe(204);
  expect(await watching.next('peer_left')).toMatchObject({ peer: 'lost', reason: 'forbidden' });
  expect(await metric(b!, 'kept_places')).toBe(0);
});

test('the other node is drained: it says so, its clients are told, and it is seen no more when it has gone', async () => {
  const [a, b] = await openNodes(2, ADMIN, undefined, PATIENT);
  const bob = await enter(b!, 'bob');
  const idB = await idOf(b!);
  const drain = (id: string, body: object) =>
    admin(a!, `nodes/${id}/drain`, { method: 'POST', body });
  expect((await drain('nobody', {})).status).toBe(404);
  expect((await drain(idB, { deadline_ms: -1 })).status).toBe(400);
  expect((await drain(idB, { deadline_ms: 20_000 })).status).toBe(202);
  expect(await bob.next('draining')).toMatchObject({ deadline_ms: 20_000 });
  const states = new Map((await nodesOf(a!)).nodes.map(({ id, state }) => [id, state]));
  expect(states.get(await idOf(a!))).toBe('running');
  expect(states.get(idB)).toBe('draining');
  await bob.close();
  await eventually('it has gone', async () => {
    const { nodes: left, unreachable } = await nodesOf(a!);
    return left.length === 1 && unreachable.length === 0;
  });
  const idA = await idOf(a!);
  expect((await drain(idA, { deadline_ms: 0 })).status).toBe(202);
});

test('a node that lives and does not answer is named; nobody is said not to be there then', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ ...ADMIN, REDIS_URL: redis.url });
  const account = gateway.demo!.account.id;
  const events = { onGone: () => {}, onForgotten: () => {}, onAnswered: () => {} };
  const mute = await Nodes.open(await openStore(redis), silentLog, events, DEFAULT_TIMINGS.nodes);
  cleanUps.push(() => mute.close());
  await enter(gateway, 'alice');
  const { nodes, unreachable } = await nodesOf(gateway);
  expect(nodes).toHaveLength(1);
  expect(unreachable).toEqual([mute.id]);
  expect((await roomsOf(gateway)).unreachable).toEqual([mute.id]);
  expect((await roomOf(gateway, account, 'a')).peers).toMatchObject([{ peer: 'alice' }]);
  expect((await kick(gateway, account, 'nobody')).status).toBe(503);
  const drain = await admin(gateway, `nodes/${mute.id}/drain`, { method: 'POST' });
  expect(drain.status).toBe(503);
  expect((await kick(gateway, account, 'alice')).status).toBe(204);
});

test('while Redis is away the node tells of itself alone', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ ...ADMIN, REDIS_URL: redis.url });
  await enter(gateway, 'alice');
  redis.hang();
  for (const path of ['nodes', 'rooms', 'rooms/1/a']) {
    const response = await admin(gateway, path);
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ code: 'overloaded' });
  }
  expect(await read(gateway, 'nodes/self')).toMatchObject({ sessions: 1, rooms: 1 });
  redis.goOn();
  await eventually('all is told again', async () => (await admin(gateway, 'nodes')).status === 200);
});

test('without the operator key nothing is told, and nothing done', async () => {
  const gateway = await openGateway(ADMIN);
  const alice = await enter(gateway, 'alice');
  const id = await idOf(gateway);
  const account = gateway.demo!.account.id;
  const routes: [string, string][] = [
    ['GET', 'nodes'],
    ['GET', 'nodes/self'],
    ['POST', `nodes/${id}/drain`],
    ['GET', 'rooms'],
    ['GET', `rooms/${account}/a`],
    ['POST', `accounts/${account}/peers/alice/kick`],
    ['POST', `accounts/${account}/peers/alice/mute`],
  ];
  for (const [method, path] of routes) {
    for (const key of ['operator-key-of-nobody', gateway.apiKey]) {
      expect((await admin(gateway, path, { method, key })).status).toBe(401);
    }
  }
  await alice.ask({ type: 'leave' }, 'left');
  expect(await read(gateway, 'nodes/self')).toMatchObject({ sessions: 1, state: 'running' });
});
