import { describe, expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, openNodes, enter, connect } = useStack();

const typesOf = ({ messages }: TestClient) => messages.map(({ type }) => type);
/** Messages that tell of peers that came or went. */
const commotion = (client: TestClient) =>
  typesOf(client).filter((type) => type === 'peer_joined' || type === 'peer_left');

/** Far longer than any wait of a test: who is seen to leave has not been kept. */
const KEEP = { RESUME_MS: '60000' };

/** Returns the credentials with which a client resumes. */
async function resumption(client: TestClient) {
  const { session_id, resume_token } = await client.next('welcome');
  return { session_id, resume_token };
}

const connectionsOf = async ({ url, apiKey }: { url: string; apiKey: string }) => {
  const response = await fetch(`${url}/api/me`, { headers: { authorization: `Bearer ${apiKey}` } });
  return ((await response.json()) as { summary: { current_ccu: number } }).summary.current_ccu;
};

test('a client whose connection breaks behind its leave has left, also if earlier requests were not done', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ ...KEEP, REDIS_URL: redis.url });
  const bob = await enter(gateway, 'bob');
  const alice = await enter(gateway, 'alice');
  const session = await resumption(alice);
  await alice.ask({ type: 'configure', mute: true }, 'configured');
  redis.hang();
  // Its settings are stored before it is answered.
  alice.send({ type: 'configure', volume: { bob: 0.5 } });
  alice.send({ type: 'leave' });
  // A fault, after which clients come back.
  await alice.close(1011);
  const left = await bob.next('peer_left');
  redis.goOn();
  expect(left).toMatchObject({ peer: 'alice', reason: 'left' });
  const again = await connect(gateway, { peer: 'alice', room: '__lobby__', ...session });
  expect(await again.next('welcome')).toMatchObject({ resumed: true, room: '__lobby__' });
});

describe.each(['the same node', 'another node'])('a client that comes back to %s', (where) => {
  const open = async () => {
    const [one, other] = await openNodes(2, KEEP);
    return { one: one!, back: where === 'the same node' ? one! : other! };
  };

  test('with its session finds its place, and nobody saw it leave', async () => {
    const { one, back } = await open();
    const bob = await enter(one, 'bob');
    const alice = await enter(one, 'alice');
    await bob.next('peer_joined');
    const session = await resumption(alice);
    alice.vanish();
    const again = await connect(back, { peer: 'alice', room: '__lobby__', ...session });
    const welcome = await again.next('welcome');
    expect(welcome).toMatchObject({ session_id: session.session_id, resumed: true });
    expect(welcome.limits.current_ccu).toBe(2);
    const joined = await again.next('joined');
    expect(joined).toMatchObject({ room: 'a', peers: [{ peer: 'bob' }] });
    const tone = await opusTone(1000, 0.5, 400);
    await play(again, tone);
    await eventually('bob hears it', () => bob.frames.length === tone.length);
    await play(bob, tone);
    await eventually('it hears bob', () => again.frames.length === tone.length);
    expect(commotion(bob)).toEqual(['peer_joined']);
    await again.close();
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'closed' });
  });

  test('with no more than its name, as a legacy client does, gets the same', async () => {
    const { one, back } = await open();
    const bob = await enter(one, 'bob');
    const alice = await enter(one, 'alice');
    await bob.next('peer_joined');
    alice.vanish();
    const again = await connect(back, { peer: 'alice', room: '__lobby__' });
    await again.next('welcome');
    await again.ask({ type: 'join', room: 'a' }, 'joined');
    const tone = await opusTone(1000, 0.5, 400);
    await play(again, tone);
    await eventually('bob hears it', () => bob.frames.length === tone.length);
    expect(commotion(bob)).toEqual(['peer_joined']);
  });

  test('and joins another room has left the first', async () => {
    const { one, back } = await open();
    const bob = await enter(one, 'bob');
    const alice = await enter(one, 'alice');
    alice.vanish();
    const again = await connect(back, { peer: 'alice', room: 'b' });
    await again.next('joined');
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'moved' });
  });

  test('while its old connection still seems to live replaces it, and nobody sees that', async () => {
    const { one, back } = await open();
    const bob = await enter(one, 'bob');
    const alice = await enter(one, 'alice');
    const session = await resumption(alice);
    await bob.next('peer_joined');
    const again = await connect(back, { peer: 'alice', ...session });
    expect(await alice.closed).toBe(4409);
    await again.next('joined');
    await eventually('one place', async () => (await connectionsOf(one)) === 2);
    expect(commotion(bob)).toEqual(['peer_joined']);
  });
});

test('a client that does not come back leaves when its time is over, and frees its connection', async () => {
  const resumeMs = 2000;
  const gateway = await openGateway({ RESUME_MS: String(resumeMs) });
  const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
  const vanishedAtMs = performance.now();
  const awayMs = () => performance.now() - vanishedAtMs;
  alice.vanish();
  await new Promise((resolve) => setTimeout(resolve, 300));
  const connections = await connectionsOf(gateway);
  // On a machine that is as busy as that, its time may be over by now.
  expect(awayMs() > resumeMs || connections === 2).toBe(true);
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'closed' });
  expect(awayMs()).toBeGreaterThan(resumeMs - 10);
  await eventually('one', async () => (await connectionsOf(gateway)) === 1);
});

test('a client that closes its connection normally leaves at once', async () => {
  const gateway = await openGateway(KEEP);
  const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
  await alice.close();
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'closed' });
});

test('a client that closes with a code of its own leaves at once, too', async () => {
  const gateway = await openGateway(KEEP);
  const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
  await alice.close(4000);
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'closed' });
  await eventually('one', async () => (await connectionsOf(gateway)) === 1);
});

describe('a client that comes back no further than the lobby', () => {
  const comeBack = async () => {
    const gateway = await openGateway(KEEP);
    const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
    const again = await connect(gateway, { peer: 'alice', room: '__lobby__' });
    await again.next('welcome');
    expect(await alice.closed).toBe(4409);
    expect(typesOf(bob)).not.toContain('peer_left');
    return { bob, again };
  };

  test('and leaves, has left the room in which it was', async () => {
    const { bob, again } = await comeBack();
    expect(await again.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a', reason: 'left' });
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'left' });
    expect(await again.ask({ type: 'leave' }, 'error')).toMatchObject({ code: 'bad_message' });
  });

  test('and goes, is in the room no more', async () => {
    const { bob, again } = await comeBack();
    await again.close();
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'closed' });
  });
});

test('a token of another session, or a made-up one, resumes nothing', async () => {
  const gateway = await openGateway(KEEP);
  const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
  const [of, other] = [await resumption(alice), await resumption(bob)];
  alice.vanish();
  const wrong = [
    { ...of, resume_token: other.resume_token },
    { ...of, resume_token: 'x'.repeat(60) },
    { ...other, resume_token: of.resume_token },
  ];
  for (const session of wrong) {
    const client = await connect(gateway, { peer: 'alice', room: '__lobby__', ...session });
    const welcome = await client.next('welcome');
    expect(welcome.resumed).toBeUndefined();
    expect(welcome.session_id).not.toBe(of.session_id);
    client.vanish();
  }
});

test('the node goes away: its clients find their places on another, and nobody sees them leave', async () => {
  const redis = await openRedis();
  const [one, other] = await openNodes(2, { ...KEEP, DRAIN_MS: '0' }, redis);
  const bob = await enter(other!, 'bob');
  const alice = await enter(one!, 'alice');
  await bob.next('peer_joined');
  const session = await resumption(alice);
  const closing = one!.close();
  expect(await alice.closed).toBe(1012);
  await closing;
  const again = await connect(other!, { peer: 'alice', ...session });
  await again.next('joined');
  const tone = await opusTone(1000, 0.5, 400);
  await play(again, tone);
  await eventually('bob hears it', () => bob.frames.length === tone.length);
  expect(commotion(bob)).toEqual(['peer_joined']);
  await again.close();
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
});

describe('a browser that comes back to its transports', () => {
  /** Alice, who listens as a browser, and bob, who has begun to speak. */
  const open = async () => {
    const gateway = await openGateway(KEEP);
    const alice = await connect(gateway, { peer: 'alice', room: '__lobby__' });
    await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    const bob = await enter(gateway, 'bob');
    const [packet] = await opusTone(1000, 0.5, 20);
    bob.sendAudio(packet!);
    const { consumer_id: ofBob } = await alice.next('new_consumer');
    const comeBack = async () => {
      const session = await resumption(alice);
      const again = await connect(gateway, { peer: 'alice', room: '__lobby__', ...session });
      expect(await again.next('welcome')).toMatchObject({ resumed: true, room: 'a' });
      const joined = await again.next('joined');
      expect(joined.webrtc).toBeUndefined();
      return { again, consumers: joined.consumers };
    };
    return { gateway, alice, bob, packet: packet!, ofBob, comeBack };
  };

  test.each(['was seen to break', 'seemed to live, and swallowed what was said'])(
    'over a connection that %s: is told whom it hears now, and leaves',
    async (how) => {
      const { gateway, alice, bob, packet, ofBob, comeBack } = await open();
      if (how === 'was seen to break') alice.vanish();
      const witness = await enter(gateway, 'witness');
      const carol = await enter(gateway, 'carol');
      carol.sendAudio(packet);
      await eventually('carol is heard', () => witness.frames.length > 0);
      const { again, consumers = [] } = await comeBack();
      // A media worker may be slow to let it hear carol: it is told of that right behind `joined`
      // then.
      const hears = () => [
        ...consumers,
        ...again.messages.filter((message) => message.type === 'new_consumer'),
      ];
      await eventually('it hears both', () => hears().length >= 2);
      expect(hears().map(({ peer }) => peer)).toEqual(['bob', 'carol']);
      for (const { consumer_id } of hears()) {
        await again.ask({ type: 'resume_consumer', consumer_id }, 'consumer_resumed');
      }
      await bob.close();
      expect(await again.next('consumer_closed')).toMatchObject({ consumer_id: ofBob });
      await carol.next('peer_left');
      expect(commotion(carol)).toEqual(['peer_left']);
      await again.ask({ type: 'leave' }, 'left');
      await eventually('carol is told', () => commotion(carol).length === 2);
    },
  );

  test('that somebody has left meanwhile it sees by what is not there', async () => {
    const { gateway, alice, bob, comeBack } = await open();
    alice.vanish();
    await bob.close();
    await eventually('both have gone', () => gateway.counts().sessions === 0);
    expect((await comeBack()).consumers).toEqual([]);
  });

  test('when the media worker has died meanwhile, it is told to join again', async () => {
    const { gateway, alice, comeBack } = await open();
    alice.vanish();
    const killed = gateway.mediaWorkerPids();
    for (const pid of killed) process.kill(pid, 'SIGKILL');
    await eventually('they are replaced', () => {
      const running = gateway.mediaWorkerPids();
      return running.length === killed.length && !running.some((pid) => killed.includes(pid));
    });
    const { again, consumers } = await comeBack();
    expect(consumers).toEqual([]);
    await again.next('media_restarted');
    const joined = await again.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    expect(joined.webrtc).toBeDefined();
  });
});
