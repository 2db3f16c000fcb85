import { expect, test } from 'vitest';
import { DEFAULT_TIMINGS, type TimingOverrides } from '../../config/timings.ts';
import { eventually } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

/** A client that comes to another node while its place is on the first, and has no more use for it. */

const { openRedis, openStore, openNodes, enter, connect } = useStack();

/** Half of the time for which the place would be kept. */
const SOON_MS = 30_000;

async function open(resumeMs = 2 * SOON_MS, timings: TimingOverrides = {}) {
  const [one, other] = await openNodes(2, { RESUME_MS: `${resumeMs}` }, undefined, timings);
  const bob = await enter(one!, 'bob');
  const alice = await enter(one!, 'alice');
  await bob.next('peer_joined');
  return { other: other!, bob, alice };
}

type Client = Awaited<ReturnType<typeof openStore>>['client'];

/** Waits until the lease of alice lasts as long as a place, longer than a renewed one. */
async function untilKept(client: Client): Promise<void> {
  const [holders] = await client.keys('*ccu:*:holders');
  const leases = holders!.replace(/:holders$/, '');
  await eventually('the lease lasts as long as a place', async () => {
    const leftMs = Number(await client.zScore(leases, 'alice')) - Date.now();
    return leftMs > DEFAULT_TIMINGS.leases.leaseMs + 5000;
  });
}

test('it joins another room while its old connection still seems to live: it leaves the first', async () => {
  const { other, bob, alice } = await open();
  const again = await connect(other, { peer: 'alice', room: 'b' });
  await again.next('joined');
  expect(await alice.closed).toBe(4409);
  expect(await bob.next('peer_left', 0, SOON_MS)).toMatchObject({ peer: 'alice', reason: 'moved' });
});

test.each(['lives', 'is lost'])(
  'it comes to the lobby while its old connection %s, and leaves',
  async (old) => {
    const { other, bob, alice } = await open();
    if (old === 'is lost') alice.vanish();
    const again = await connect(other, { peer: 'alice', room: '__lobby__' });
    await again.next('welcome');
    expect(await again.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a', reason: 'left' });
    expect(await bob.next('peer_left', 0, SOON_MS)).toMatchObject({
      peer: 'alice',
      reason: 'left',
    });
    expect(await again.ask({ type: 'leave' }, 'error')).toMatchObject({ code: 'bad_message' });
  },
);

test.each(['lives', 'is lost'])(
  'it comes to the lobby while its old connection %s, and goes',
  async (old) => {
    const { other, bob, alice } = await open();
    if (old === 'is lost') alice.vanish();
    const again = await connect(other, { peer: 'alice', room: '__lobby__' });
    await again.next('welcome');
    await again.close();
    const left = await bob.next('peer_left', 0, SOON_MS);
    expect(left).toMatchObject({ peer: 'alice', reason: 'closed' });
  },
);

test('it comes to the lobby, joins another room, leaves that, and leaves once more: it is in no room', async () => {
  const { other, bob } = await open();
  const again = await connect(other, { peer: 'alice', room: '__lobby__' });
  await again.ask({ type: 'join', room: 'b' }, 'joined');
  await again.ask({ type: 'leave' }, 'left');
  expect(await bob.next('peer_left', 0, SOON_MS)).toMatchObject({ peer: 'alice' });
  expect(await again.ask({ type: 'leave' }, 'error')).toMatchObject({ code: 'bad_message' });
});

test('it comes to the lobby, and leaves when its place has ended: it is in no room', async () => {
  const { other, bob } = await open(100, { sessions: { movesWithinMs: 100 } });
  const again = await connect(other, { peer: 'alice', room: '__lobby__' });
  await bob.next('peer_left', 0, SOON_MS);
  expect(await again.ask({ type: 'leave' }, 'error')).toMatchObject({ code: 'bad_message' });
  const third = await connect(other, { peer: 'alice', room: '__lobby__' });
  expect(await third.ask({ type: 'leave' }, 'error')).toMatchObject({ code: 'bad_message' });
});

test('it is lost on the second node before it has joined there: a third node still knows its place', async () => {
  const redis = await openRedis();
  const { client } = await openStore(redis);
  const [one, second, third] = await openNodes(3, { RESUME_MS: `${2 * SOON_MS}` }, redis);
  const bob = await enter(one!, 'bob');
  const alice = await connect(one!, { room: '__lobby__' });
  const { session_id, resume_token } = await alice.next('welcome');
  await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  await bob.next('peer_joined');
  alice.vanish();
  const again = await connect(second!, { room: '__lobby__', session_id, resume_token });
  expect(await again.next('welcome')).toMatchObject({ resumed: true });
  again.vanish();
  await untilKept(client);
  const back = await connect(third!, { room: '__lobby__', session_id, resume_token });
  expect(await back.next('welcome')).toMatchObject({ resumed: true });
  expect(await back.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a', reason: 'left' });
  expect(await bob.next('peer_left', 0, SOON_MS)).toMatchObject({ peer: 'alice', reason: 'left' });
});

test('a fresh session is lost in the lobby of the node that keeps the place: another node still knows the place', async () => {
  const redis = await openRedis();
  const { client } = await openStore(redis);
  const [one, other] = await openNodes(2, { RESUME_MS: `${2 * SOON_MS}` }, redis);
  const bob = await enter(one!, 'bob');
  const alice = await enter(one!, 'alice');
  await bob.next('peer_joined');
  alice.vanish();
  const fresh = await connect(one!, { peer: 'alice', room: '__lobby__' });
  await fresh.next('welcome');
  fresh.vanish();
  await untilKept(client);
  const back = await connect(other!, { peer: 'alice', room: '__lobby__' });
  await back.next('welcome');
  expect(await back.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a', reason: 'left' });
  expect(await bob.next('peer_left', 0, SOON_MS)).toMatchObject({ peer: 'alice', reason: 'left' });
});
