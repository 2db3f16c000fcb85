import { setTimeout as sleep } from 'node:timers/promises';
import { Application } from 'libopus-wasm';
import { describe, expect, test } from 'vitest';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { encodeOpus, tone } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';

/** Muted peers are seen by the others, on any node. */

const { openNodes, openGateway, openRedis, enter, connect, cleanUps } = useStack();

const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 };

const changesIn = ({ messages }: TestClient) =>
  messages.filter(({ type }) => type === 'peer_changed');

describe.each(['the same node', 'another node'])('on %s', (where) => {
  const open = async () => {
    const [one, other] = await openNodes(2, { RESUME_MS: '15000' });
    return { one: one!, other: where === 'the same node' ? one! : other! };
  };

  test('a WebSocket peer: at join, when it comes, and when it changes', async () => {
    const { one, other } = await open();
    const bob = await enter(other, 'bob');
    const alice = await connect(one, { room: '__lobby__' });
    await alice.ask({ type: 'configure', mute: true }, 'configured');
    await alice.ask({ type: 'join', room: 'a' }, 'joined');
    expect(await bob.next('peer_joined')).toMatchObject({ peer: 'alice', muted: true });
    const carol = await enter(other, 'carol');
    expect((await carol.next('joined')).peers).toMatchObject([
      { peer: 'bob', muted: false },
      { peer: 'alice', muted: true },
    ]);
    for (const mute of [true, false]) {
      await alice.ask({ type: 'configure', mute }, 'configured');
    }
    const changed = { type: 'peer_changed', peer: 'alice', muted: false };
    expect(await bob.next('peer_changed')).toEqual(changed);
    expect(await carol.next('peer_changed')).toEqual(changed);
    await alice.ask({ type: 'configure', volume: { bob: 1 } }, 'configured');
    await alice.ask({ type: 'leave' }, 'left');
    await bob.next('peer_left');
    expect(changesIn(bob)).toHaveLength(1);
    expect(changesIn(alice)).toEqual([]);
  });

  test('a browser that pauses its producer, or mutes itself: muted until both are undone', async () => {
    const { one, other } = await open();
    const bob = await enter(other, 'bob');
    const alice = await connect(one, { room: '__lobby__' });
    const { webrtc } = await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    const produce = {
      type: 'produce',
      kind: 'audio',
      transport_id: webrtc?.send_transport.id,
      rtp_parameters: { codecs: [OPUS], encodings: [{ ssrc: 1 }] },
    };
    const { producer_id } = await alice.ask(produce, 'produced');
    await alice.ask({ type: 'pause_producer', producer_id }, 'producer_paused');
    expect(await bob.next('peer_changed')).toMatchObject({ peer: 'alice', muted: true });
    await alice.ask({ type: 'configure', mute: true }, 'configured');
    await alice.ask({ type: 'resume_producer', producer_id }, 'producer_resumed');
    await alice.ask({ type: 'configure', mute: false }, 'configured');
    await bob.until('the second', () => changesIn(bob)[1]);
    expect(changesIn(bob)).toMatchObject([{ muted: true }, { muted: false }]);
  });

  test('one that comes back without its session is not muted, and the others are told', async () => {
    const { one, other } = await open();
    const bob = await enter(other, 'bob');
    const alice = await enter(one, 'alice');
    await alice.ask({ type: 'configure', mute: true }, 'configured');
    await bob.next('peer_changed');
    alice.vanish();
    const again = await enter(one, 'alice');
    await bob.until('the second', () => changesIn(bob)[1]);
    expect(changesIn(bob)).toMatchObject([{ muted: true }, { muted: false }]);
    await again.close();
    await bob.next('peer_left');
    expect(bob.messages.filter(({ type }) => type === 'peer_joined')).toHaveLength(1);
  });
});

test('one that comes back with its session stays muted, and nobody is told anything', async () => {
  const gateway = await openGateway({ RESUME_MS: '15000' });
  const bob = await enter(gateway, 'bob');
  const alice = await enter(gateway, 'alice');
  await alice.ask({ type: 'configure', mute: true }, 'configured');
  const { session_id, resume_token } = await alice.next('welcome');
  alice.vanish();
  const again = await connect(gateway, { room: '__lobby__', session_id, resume_token });
  await again.next('joined');
  const carol = await enter(gateway, 'carol');
  const { peers } = await carol.next('joined');
  expect(peers.find(({ peer }) => peer === 'alice')).toMatchObject({ muted: true });
  expect(changesIn(bob)).toHaveLength(1);
});

test('a browser that unmutes itself while Redis is away is heard on another node, and not before', async () => {
  const redis = await openRedis();
  const [one, other] = await openNodes(2, {}, redis);
  const bob = await enter(other!, 'bob');
  const carol = await connect(other!, { peer: 'carol', room: '__lobby__' });
  const ofCarol = await carol.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const listener = new WebRtcClient(carol, ofCarol.webrtc);
  const alice = await connect(one!, { room: '__lobby__' });
  const { webrtc } = await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const browser = new WebRtcClient(alice, webrtc);
  cleanUps.push(
    () => listener.close(),
    () => browser.close(),
  );
  await listener.hear();
  const producer_id = await browser.produce();
  const silk = { application: Application.Voip, bitrate: 16_000 };
  browser.talk(await encodeOpus(tone(440, 0.3, 1000), 20, silk));
  const heard = () => [bob.frames.length, listener.heard.length];
  const isHeardAfter = (before: number[]) =>
    eventually('she is heard', () => heard().every((count, i) => count > before[i]! + 10));
  await isHeardAfter([0, 0]);

  await alice.ask({ type: 'pause_producer', producer_id }, 'producer_paused');
  expect(await bob.next('peer_changed')).toMatchObject({ peer: 'alice', muted: true });
  let before: number[] = [];
  // Packets may be on their way; while the browser is heard, one comes every 20 ms.
  await eventually('nothing more is heard', async () => {
    before = heard();
    await sleep(500);
    return heard().every((count, i) => count === before[i]);
  });

  await redis.kill();
  await alice.ask({ type: 'resume_producer', producer_id }, 'producer_resumed');
  await isHeardAfter(before);
  const [toBob = 0, toCarol = 0] = heard().map((count, i) => count - before[i]!);
  // The mixer gives the first 120 ms of SILK to decoders alone.
  expect(toCarol - toBob).toBeGreaterThan(3);
});
