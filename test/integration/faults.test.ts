import { expect, onTestFinished, test, vi } from 'vitest';
import { RoomMedia } from '../../src/rooms/room-media.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone, pcmTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, createAccount, connect, enter } = useStack();

test('rooms and peers of two accounts never meet, whatever their names', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url });
  const { apiKey: otherKey } = await createAccount(redis, 'pro');
  const alice = await enter(gateway, 'alice');
  const stranger = await enter(gateway, 'alice', { api_key: otherKey });
  expect((await stranger.next('joined')).peers).toEqual([]);
  await play(alice, await opusTone(1000, 0.5, 400));
  expect(stranger.frames).toEqual([]);
  expect(alice.messages.map(({ type }) => type)).not.toContain('peer_joined');
});

test('the sixth connection of a free account is refused, until one of the five has gone', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url });
  const { apiKey } = await createAccount(redis, 'free');
  const five = [];
  for (const peer of ['1', '2', '3', '4', '5']) {
    five.push(await enter(gateway, peer, { api_key: apiKey }));
  }
  const sixth = await connect(gateway, { peer: '6', api_key: apiKey });
  expect(await sixth.closed).toBe(4429);
  expect(sixth.messages).toEqual([
    {
      type: 'error',
      code: 'ccu_limit',
      message: expect.any(String),
      retryable: true,
      retry_after_ms: expect.any(Number),
    },
  ]);
  const replaced = await enter(gateway, '5', { api_key: apiKey });
  expect((await replaced.next('welcome')).limits).toMatchObject({ max_ccu: 5, current_ccu: 5 });
  await five[0]?.close();
  await enter(gateway, '6', { api_key: apiKey });
});

test('media workers that are killed: who talks over WebSockets notices nothing, and they are replaced', async () => {
  const gateway = await openGateway({ MEDIA_WORKERS: '2' });
  const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
  const tone = await opusTone(1000, 0.5, 1000);
  const playing = play(alice, tone);
  await eventually('some of it is heard', () => bob.frames.length >= 10);
  const killed = gateway.mediaWorkerPids();
  for (const pid of killed) process.kill(pid, 'SIGKILL');
  await playing;
  await eventually('every frame is heard', () => bob.frames.length === tone.length);
  expect(bob.frames).toEqual(tone);
  await eventually('they are replaced', () => {
    const pids = gateway.mediaWorkerPids();
    return pids.length === 2 && !pids.some((pid) => killed.includes(pid));
  });
  await eventually('the room has a router again', async () => (await gateway.countRouters()) === 1);
  const carol = await enter(gateway, 'carol');
  await carol.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  await Promise.all([alice, bob, carol].map((client) => client.close()));
  await eventually('the room is let go', async () => (await gateway.countRouters()) === 0);
});

test('a media worker is killed while a room is opened that waits for Redis: the room has another', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url, MEDIA_WORKERS: '1' });
  const [alice, bob] = [
    await connect(gateway, { peer: 'alice', room: '__lobby__' }),
    await connect(gateway, { peer: 'bob', room: '__lobby__' }),
  ];
  await Promise.all([alice.next('welcome'), bob.next('welcome')]);
  const openMedia = vi.spyOn(RoomMedia, 'open');
  onTestFinished(() => openMedia.mockRestore());
  redis.hang();
  const joined = alice.ask({ type: 'join', room: 'a' }, 'joined');
  const hasRouter = () => openMedia.mock.settledResults[0]?.type === 'fulfilled';
  await eventually('it has a router', hasRouter);
  const [killed] = gateway.mediaWorkerPids();
  process.kill(killed!, 'SIGKILL');
  await eventually('it is replaced', () => {
    const [pid] = gateway.mediaWorkerPids();
    return pid !== undefined && pid !== killed;
  });
  redis.goOn();
  await joined;
  await bob.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
});

test.each(['hangs', 'is killed'] as const)(
  'Redis %s: calls go on, new connections are put off; when it is back, all is well',
  async (what) => {
    const redis = await openRedis();
    const timings = { redis: { commandTimeoutMs: 1000 } };
    const gateway = await openGateway({ REDIS_URL: redis.url }, timings);
    const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
    if (what === 'hangs') redis.hang();
    else await redis.kill();
    const tone = await opusTone(1000, 0.5, 1000);
    const playing = play(alice, tone);
    const late = await connect(gateway, { peer: 'late' });
    expect(await late.closed).toBe(1013);
    expect(await late.next('error')).toMatchObject({
      code: 'overloaded',
      retryable: true,
      retry_after_ms: expect.any(Number),
    });
    const me = () =>
      fetch(`${gateway.url}/api/me`, { headers: { authorization: `Bearer ${gateway.apiKey}` } });
    const response = await me();
    expect(response.status).toBe(503);
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    await playing;
    await eventually('no frame is lost', () => bob.frames.length === tone.length);
    if (what === 'hangs') redis.goOn();
    else await redis.restart();
    // An empty Redis knows no key any more: that is an answer too, and not 503.
    await eventually('it answers', async () => (await me()).status !== 503);
  },
);

test('a burst far ahead of real time is cut, and what follows is heard', async () => {
  const gateway = await openGateway();
  const [alice, bob] = [await enter(gateway, 'alice'), await enter(gateway, 'bob')];
  const tone = await opusTone(1000, 0.5, 6000);
  for (const packet of tone) alice.sendAudio(packet);
  await eventually('some of it', () => bob.frames.length >= 10);
  let before = 0;
  await eventually('no more of it', async () => {
    before = bob.frames.length;
    await new Promise((resolve) => setTimeout(resolve, 1500));
    return bob.frames.length === before;
  });
  expect(before).toBeLessThan(tone.length / 2);
  await play(alice, tone.slice(0, 20));
  await eventually('the rest', () => bob.frames.length === before + 20);
});

test('silence that is sent as PCM is not forwarded', async () => {
  const gateway = await openGateway();
  const audio = 'pcm_s16le;rate=48000;channels=1';
  const [alice, bob] = [
    await enter(gateway, 'alice', { audio }),
    await enter(gateway, 'bob', { audio }),
  ];
  await play(alice, pcmTone(1000, 0, 600));
  expect(bob.frames).toEqual([]);
});
