import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { CcuLeases } from '../../src/usage/ccu-leases.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const inUse = useGateway();
const { connect, enter } = inUse;

describe('lobby and rooms', () => {
  test('welcome comes first, and says all that there is to say', async () => {
    const client = await connect();
    await client.next('welcome');
    expect(client.messages[0]).toEqual({
      type: 'welcome',
      peer: 'alice',
      room: '__lobby__',
      resume_token: expect.any(String),
      session_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      audio: { in: 'auto', out: 'opus', delivery: 'mix' },
      limits: { max_ccu: 500, current_ccu: 1, remaining_minutes: 1_000_000_000 },
      heartbeat_ms: 15_000,
      network: '127.0.0.0/24',
      resume_ms: 200,
    });
  });

  test('join, peer_joined, leave, peer_left: each is told, and answers carry the id', async () => {
    const alice = await connect({ peer: 'alice' });
    const bob = await connect({ peer: 'bob' });
    expect(await alice.ask({ type: 'join', room: 'a', id: '1' }, 'joined')).toEqual({
      type: 'joined',
      room: 'a',
      speaker: expect.any(Number),
      peers: [],
      reply_to: '1',
    });
    const joined = await bob.ask({ type: 'join', room: 'a' }, 'joined');
    expect(joined.peers).toEqual([
      { peer: 'alice', kind: 'websocket', speaker: expect.any(Number), muted: false },
    ]);
    const { speaker } = joined;
    expect(await alice.next('peer_joined')).toEqual({
      type: 'peer_joined',
      peer: 'bob',
      kind: 'websocket',
      speaker,
      muted: false,
    });
    expect(await bob.ask({ type: 'leave', id: '2' }, 'left')).toEqual({
      type: 'left',
      room: 'a',
      reason: 'left',
      reply_to: '2',
    });
    expect(await alice.next('peer_left')).toEqual({
      type: 'peer_left',
      peer: 'bob',
      speaker,
      reason: 'left',
    });
  });

  test('a room named at connection is joined at once', async () => {
    const client = await connect({ room: 'a' });
    expect(await client.next('joined')).toMatchObject({ room: 'a' });
    expect(client.messages.map(({ type }) => type)).toEqual(['welcome', 'joined']);
  });

  test('join while in a room moves the peer; the room it left is told', async () => {
    const [alice, bob] = [await enter('alice'), await enter('bob')];
    expect(await bob.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });
    expect(await alice.next('peer_left')).toMatchObject({ peer: 'bob', reason: 'moved' });
  });

  test('join of the room in which the peer is answers again and tells nobody', async () => {
    const [alice, bob] = [await enter('alice'), await enter('bob')];
    const again = await bob.ask({ type: 'join', room: 'a' }, 'joined');
    expect(again.peers).toHaveLength(1);
    expect(alice.messages.filter(({ type }) => type.startsWith('peer_'))).toHaveLength(1);
  });

  test('joins sent during a join are done one after the other', async () => {
    const client = await connect();
    for (const room of ['a', 'b', 'c']) client.send({ type: 'join', room });
    client.send({ type: 'leave' });
    await client.next('left');
    expect(client.messages.map((message) => ('room' in message ? message.room : ''))).toEqual([
      '__lobby__',
      'a',
      'b',
      'c',
      'c',
    ]);
  });

  test('sockets that die in the middle of a join leave nothing behind', async () => {
    for (let i = 0; i < 30; i += 1) {
      const client = await connect({ peer: `p${i}` });
      client.send({ type: 'join', room: `room${i % 3}`, ...(i % 2 && { media: 'webrtc' }) });
      if (i % 5 === 0) await client.next('welcome');
      client.vanish();
    }
    await eventually('all have gone', () => inUse.gateway.counts().sessions === 0);
  });

  test('a peer that connects again replaces itself, at no second place of the account', async () => {
    const bob = await enter('bob');
    const before = await enter('alice');
    const after = await connect({ peer: 'alice', room: 'a' });
    expect(await before.closed).toBe(4409);
    expect(await before.next('error')).toMatchObject({ code: 'replaced', retryable: false });
    expect((await after.next('welcome')).limits.current_ccu).toBe(2);
    await after.next('joined');
    const tone = await opusTone(1000, 0.5, 200);
    await play(after, tone);
    await eventually('it is heard', () => bob.frames.length === tone.length);
    const told = bob.messages.map(({ type }) => type);
    expect(told.filter((type) => type === 'peer_joined')).toHaveLength(1);
    expect(told).not.toContain('peer_left');
  });

  test.each(['会議室', 'a b/c?d&e=f%', '😀'.repeat(128), 'x'.repeat(128)])(
    'the name "%s" goes in and comes out as it is',
    async (name) => {
      const client = await connect({ peer: name, room: name });
      expect(await client.next('joined')).toMatchObject({ room: name });
      expect((await client.next('welcome')).peer).toBe(name);
    },
  );

  test('sound behind a leave is heard in no room, and sound behind the join after it in the next', async () => {
    const bob = await enter('bob');
    const carol = await enter('carol', { room: 'b' });
    const alice = await enter('alice');
    const tone = await opusTone(1000, 0.5, 200);
    // The gateway has read all of it before it handles the first message.
    alice.sendTogether([
      { type: 'leave' },
      ...tone.slice(0, 5),
      { type: 'join', room: 'b' },
      ...tone.slice(5),
    ]);
    await eventually('the rest is heard', () => carol.frames.length >= 5);
    await alice.ask({ type: 'leave' }, 'left');
    await carol.next('peer_left');
    expect([bob.frames.length, carol.frames]).toEqual([0, tone.slice(5)]);
  });

  test('a client that reads nothing and only sends is heard', async () => {
    const bob = await enter('bob');
    const mute = await enter('mute');
    const tone = await opusTone(1000, 0.5, 400);
    await play(mute, tone);
    await eventually('all frames', () => bob.frames.length === tone.length);
  });
});

test('a fault of the gateway while a client connects: told as one, without its words, and the next connects', async () => {
  const admit = vi.spyOn(CcuLeases.prototype, 'admit');
  onTestFinished(() => admit.mockRestore());
  admit.mockRejectedValueOnce(new TypeError('an inner secret'));
  const client = await connect({ room: 'a' });
  expect(await client.closed).toBe(1011);
  expect(client.messages).toEqual([
    {
      type: 'error',
      code: 'internal_error',
      message: expect.not.stringContaining('secret') as string,
      retryable: true,
    },
  ]);
  const next = await connect({ room: 'a' });
  expect((await next.next('welcome')).limits.current_ccu).toBe(1);
});
