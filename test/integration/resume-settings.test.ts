import { describe, expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { readFixture } from '../support/fixtures.ts';
import { eventually } from '../support/gateway.ts';
import { Nodes } from '../support/nodes.ts';
import { opusTone, pcmTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

/** Settings of a client hold when it comes back to its session, and only then. */

const { openRedis, openGateway, openNodes, enter, connect, cleanUps } = useStack();

type Gateway = { url: string; apiKey: string };

const KEEP = { RESUME_MS: '15000' };
const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 };
const PCM = 'pcm_s16le;rate=16000;channels=1';
const SET = {
  audio: PCM,
  audio_out: 'pcmu',
  delivery: 'mix',
  volume: { bob: 0.5, carol: 0 },
  mute: true,
};
/** Query of the client when it comes back. */
const OTHER_QUERY = { audio: 'opus', audio_out: 'opus', delivery: 'forward' };

/** Credentials that a client needs to come back. */
async function resumption(client: TestClient) {
  const { session_id, resume_token } = await client.next('welcome');
  return { session_id, resume_token };
}

/** Two ways to open a gateway that a client loses, and one to which it comes back. */
const ways = {
  'the same node': async () => {
    const gateway = await openGateway(KEEP);
    return { gateway, back: gateway, lose: (client: TestClient) => client.vanish() };
  },
  'another node': async () => {
    const [gateway, back] = await openNodes(2, KEEP);
    return { gateway: gateway!, back: back!, lose: (client: TestClient) => client.vanish() };
  },
  'another node, after kill -9 of the first': async () => {
    const redis = await openRedis();
    const nodes = new Nodes(redis, KEEP);
    cleanUps.push(() => nodes.close());
    const gateway = await nodes.start();
    const back = {
      ...(await openGateway({ ...KEEP, REDIS_URL: redis.url })),
      apiKey: gateway.apiKey,
    };
    return { gateway, back, lose: () => gateway.process.child.kill('SIGKILL') };
  },
} satisfies Record<
  string,
  () => Promise<{ gateway: Gateway; back: Gateway; lose: (client: TestClient) => unknown }>
>;

describe.each(Object.entries(ways))('a client that comes back to %s', (_, open) => {
  test.each(['a', '__lobby__'])('from %s has all that it had set', async (room) => {
    const { gateway, back, lose } = await open();
    const alice = await connect(gateway, { room });
    const session = await resumption(alice);
    if (room !== '__lobby__') await alice.next('joined');
    const { type: _type, ...configured } = await alice.ask(
      { type: 'configure', ...SET },
      'configured',
    );
    expect(configured.mute).toBe(true);
    lose(alice);
    await alice.closed;
    const query = { room: '__lobby__', ...session, ...OTHER_QUERY };
    const again = await connect(back, query);
    const welcome = await again.next('welcome');
    expect(welcome).toMatchObject({ ...configured, resumed: true, resume_ms: 15_000 });
    if (room !== '__lobby__') await again.next('joined');
    expect(await again.ask({ type: 'configure', mute: true }, 'configured')).toMatchObject(
      configured,
    );
  });
});

test('muted is muted: nothing that a resumed client says is heard until it says otherwise', async () => {
  const gateway = await openGateway(KEEP);
  const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
  await alice.ask({ type: 'configure', mute: true }, 'configured');
  const session = await resumption(alice);
  alice.vanish();
  const again = await connect(gateway, { room: '__lobby__', ...session });
  await again.next('joined');
  const [muted, heard] = [await opusTone(1000, 0.5, 200), await opusTone(400, 0.5, 200)];
  await play(again, muted);
  await again.ask({ type: 'configure', mute: false }, 'configured');
  expect(bob.frames).toEqual([]);
  await play(again, heard);
  await eventually('bob hears the second', () => bob.frames.length >= heard.length);
  const isMuted = (frame: Buffer) => muted.some((packet) => frame.equals(packet));
  expect(bob.frames.filter(isMuted)).toEqual([]);
});

test('a format that was found out is known, and heard in, at once', async () => {
  const gateway = await openGateway(KEEP);
  const bob = await enter(gateway, 'bob');
  const alice = await enter(gateway, 'alice', { audio: 'auto' });
  const session = await resumption(alice);
  await play(alice, pcmTone(500, 0.5, 1000));
  const { in: detected } = await alice.next('audio_detected');
  alice.vanish();
  const again = await connect(gateway, { room: '__lobby__', audio: 'auto', ...session });
  const { audio } = await again.next('welcome');
  expect(audio).toEqual({ in: detected, out: detected, delivery: 'mix' });
  await again.next('joined');
  const [packet] = await opusTone(1000, 0.5, 20);
  bob.sendAudio(packet!);
  await eventually('it hears samples', () => again.frames.length > 0);
  expect(again.frames[0]).toHaveLength(1920);
});

test.each(['auto', 'wav'])(
  'WAVE (%s): who comes back twice is sent the samples that are inside, as before',
  async (audio) => {
    const gateway = await openGateway(KEEP);
    const bob = await enter(gateway, 'bob');
    let alice = await enter(gateway, 'alice', { audio });
    alice.sendAudio(readFixture('speech.wav').subarray(0, 1000));
    await eventually('its head is read', () =>
      alice.messages.some((told) => told.type === 'audio_detected' && told.out === PCM),
    );
    for (let time = 0; time < 2; time += 1) {
      const session = await resumption(alice);
      alice.vanish();
      alice = await connect(gateway, { room: '__lobby__', audio, ...session });
      expect(await alice.next('welcome')).toMatchObject({ resumed: true, audio: { out: PCM } });
      await alice.next('joined');
      await alice.ask({ type: 'configure', mute: true }, 'configured');
    }
    const [packet] = await opusTone(1000, 0.5, 20);
    bob.sendAudio(packet!);
    await eventually('it hears samples', () => alice.frames.length > 0);
    expect(alice.frames[0]).toHaveLength(640);
  },
);

describe('a client that comes back without its session', () => {
  test('is new, and not muted', async () => {
    const gateway = await openGateway(KEEP);
    const [bob, alice] = [await enter(gateway, 'bob'), await enter(gateway, 'alice')];
    await alice.ask({ type: 'configure', mute: true, volume: { bob: 0 } }, 'configured');
    alice.vanish();
    const again = await connect(gateway, { room: '__lobby__' });
    const welcome = await again.next('welcome');
    expect(welcome.resumed).toBeUndefined();
    expect(welcome.mute).toBeUndefined();
    await again.ask({ type: 'join', room: 'a' }, 'joined');
    const tone = await opusTone(1000, 0.5, 200);
    await play(again, tone);
    await eventually('bob hears it', () => bob.frames.length === tone.length);
    const { mute, volume } = await again.ask({ type: 'configure', delivery: 'mix' }, 'configured');
    expect({ mute, volume }).toEqual({ mute: false, volume: {} });
  });

  test('and is known no more when it has left for good', async () => {
    const gateway = await openGateway(KEEP);
    const alice = await connect(gateway, { room: '__lobby__' });
    await alice.ask({ type: 'configure', mute: true }, 'configured');
    const session = await resumption(alice);
    await alice.close();
    const again = await connect(gateway, { room: '__lobby__', ...session });
    const welcome = await again.next('welcome');
    expect(welcome.resumed).toBeUndefined();
    expect(await again.ask({ type: 'configure', delivery: 'mix' }, 'configured')).toMatchObject({
      mute: false,
    });
  });
});

test('a browser that was muted by its client is muted when it comes back to its transports', async () => {
  const gateway = await openGateway(KEEP);
  const alice = await connect(gateway, { room: '__lobby__' });
  const { webrtc } = await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const produce = {
    type: 'produce',
    kind: 'audio',
    transport_id: webrtc?.send_transport.id,
    rtp_parameters: { codecs: [OPUS], encodings: [{ ssrc: 1 }] },
  };
  await alice.ask(produce, 'produced');
  await alice.ask({ type: 'configure', mute: true }, 'configured');
  const session = await resumption(alice);
  alice.vanish();
  const again = await connect(gateway, { room: '__lobby__', ...session });
  expect(await again.next('welcome')).toMatchObject({ resumed: true, mute: true, room: 'a' });
});
