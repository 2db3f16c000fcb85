import { describe, expect, test } from 'vitest';
import { ECHO_PEER } from '../../src/rooms/echo.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { opusTone, pcmTone, play } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';
import { untilTaken, useWebhooks, VISIT } from '../support/use-webhooks.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';

/** Closed after the clients of the stack. */
const used = useGateway();
const {
  openRedis,
  openGateway,
  openNodes,
  openStore,
  openHook,
  openWorker,
  createAccount,
  connect,
  cleanUps,
} = useWebhooks();

async function enterEcho(
  gateway: { url: string; apiKey: string },
  peer: string,
  query: Record<string, string | undefined> = {},
) {
  const client = await connect(gateway, { room: '__lobby__', peer, ...query });
  const joined = await client.ask({ type: 'join', room: '__echo__' }, 'joined');
  expect(joined).toMatchObject({ room: '__echo__', peers: [] });
  return { client, speaker: joined.speaker };
}

const typesOf = ({ messages }: TestClient) => messages.map(({ type }) => type);

describe('the echo room', () => {
  test('a peer hears each of its packets a second later, and nobody else does', async () => {
    const { gateway } = used;
    const [{ client: alice }, { client: bob }] = [
      await enterEcho(gateway, 'alice'),
      await enterEcho(gateway, 'bob'),
    ];
    const tone = await opusTone(1000, 0.5, 400);
    const fromMs = performance.now();
    let firstMs = 0;
    alice.onFrame = () => (firstMs ||= performance.now() - fromMs);
    await play(alice, tone);
    await eventually('all of it', () => alice.frames.length === tone.length);
    expect(alice.frames).toEqual(tone);
    expect(firstMs).toBeGreaterThan(950);
    expect(bob.frames).toEqual([]);
    await alice.next('speaking');
    for (const message of alice.messages) {
      if (message.type !== 'speaking') continue;
      expect(['', 'alice']).toContain(message.peers.map(({ peer }) => peer).join());
    }
    await bob.ask({ type: 'leave' }, 'left');
    for (const client of [alice, bob]) {
      expect(typesOf(client).filter((type) => type.startsWith('peer_'))).toEqual([]);
    }
  });

  test('with delivery=forward it hears itself under its own number', async () => {
    const { gateway } = used;
    const { client, speaker } = await enterEcho(gateway, 'alice', { delivery: 'forward' });
    const tone = await opusTone(1000, 0.5, 200);
    await play(client, tone);
    await eventually('all of it', () => client.frames.length === tone.length);
    expect(client.frames.map((frame) => frame.readUInt16BE(2))).toEqual(tone.map(() => speaker));
    expect(client.frames.map((frame) => frame.subarray(4))).toEqual(tone);
  });

  test('samples come back as samples', async () => {
    const { gateway } = used;
    const { client } = await enterEcho(gateway, 'alice', {
      audio: 'pcm_s16le;rate=48000;channels=1',
    });
    await play(client, pcmTone(1000, 0.5, 400));
    await eventually('all of it', () => client.frames.length >= 20);
    expect(client.frames[0]).toHaveLength(1920);
  });

  test('a browser is given itself to hear', async () => {
    const { gateway } = used;
    const alice = await connect(gateway, { room: '__lobby__' });
    const joined = await alice.ask({ type: 'join', room: '__echo__', media: 'webrtc' }, 'joined');
    expect(joined).toMatchObject({ room: '__echo__', peers: [] });
    const browser = new WebRtcClient(alice, joined.webrtc);
    cleanUps.push(() => browser.close());
    await browser.hear();
    await browser.produce();
    const tone = await opusTone(1000, 0.5, 1000);
    browser.talk(tone);
    expect(await alice.next('new_consumer')).toMatchObject({ peer: ECHO_PEER });
    await eventually('it hears itself', () => browser.heard.length >= 20);
    for (const { peer, payload } of browser.heard) {
      expect(peer).toBe(ECHO_PEER);
      expect(tone).toContainEqual(payload);
    }
    await alice.ask({ type: 'leave' }, 'left');
    await eventually('nothing is left', async () => (await gateway.countRouters()) === 0);
  });

  test('it counts in minutes, as one room', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url }, { usage: { writeEveryMs: 100 } });
    const { id, apiKey } = await createAccount(redis, 'free');
    const account = { url: gateway.url, apiKey };
    await enterEcho(account, 'alice');
    await enterEcho(account, 'bob');
    const headers = { authorization: `Bearer ${apiKey}` };
    const recorded = async () => {
      const response = await fetch(`${gateway.url}/api/usage?granularity=day`, { headers });
      return ((await response.json()) as { records: Record<string, unknown>[] }).records;
    };
    await eventually('they are counted', async () => (await recorded()).length > 0);
    expect(await recorded()).toMatchObject([{ room: '__echo__' }]);
    const store = new UsageStore(await openStore(redis));
    await store.write([
      {
        accountId: id,
        writer: 'test',
        minute: new Date().toISOString().slice(0, 16),
        room: 'z',
        websocketMs: 100 * 60_000,
        webrtcMs: 0,
        peakPeers: 1,
      },
    ]);
    const late = await connect(account, { room: '__echo__', peer: 'late' });
    expect(await late.next('error')).toMatchObject({ code: 'minutes_exhausted' });
  });

  test('no webhook is told of it', async () => {
    const { redis, receiver, accounts, id } = await openHook();
    await openWorker(redis);
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const { apiKey } = await accounts.addKey(id);
    const { client } = await enterEcho({ url: gateway.url, apiKey }, 'ada');
    await client.ask({ type: 'join', room: 'a' }, 'joined');
    await client.ask({ type: 'leave' }, 'left');
    await untilTaken(receiver, VISIT.length);
    expect(receiver.story).toEqual(VISIT);
  });

  test('any token lets its peer in, also by the query, but not one that may not publish', async () => {
    const { gateway } = used;
    const tokenOf = async (body: object) => {
      const response = await fetch(`${gateway.url}/api/tokens`, {
        method: 'POST',
        headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({ peer: 'alice', rooms: ['b'], ttl_seconds: 60, ...body }),
      });
      return ((await response.json()) as { token: string }).token;
    };
    const api_key = undefined;
    const token = await tokenOf({ publish: true });
    const alice = await connect(gateway, { room: '__echo__', api_key, token });
    expect(await alice.next('joined')).toMatchObject({ room: '__echo__', peers: [] });
    const silent = await tokenOf({ publish: false });
    const client = await connect(gateway, { room: '__lobby__', api_key, token: silent });
    const join = { type: 'join', room: '__echo__' };
    expect(await client.ask(join, 'error')).toMatchObject({ code: 'forbidden' });
  });

  test('its place is kept, and found on another node', async () => {
    const [one, other] = await openNodes(2, { RESUME_MS: '15000' });
    const { client } = await enterEcho(one!, 'alice');
    const { session_id, resume_token } = await client.next('welcome');
    client.vanish();
    const again = await connect(other!, { room: '__lobby__', session_id, resume_token });
    expect(await again.next('joined')).toMatchObject({ room: '__echo__', peers: [] });
    const tone = await opusTone(1000, 0.5, 200);
    await play(again, tone);
    await eventually('all of it', () => again.frames.length === tone.length);
    expect(again.frames).toEqual(tone);
  });
});
