import { expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, type TestGateway } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

/** A client that comes back never gets more than a new one would. */

const { openRedis, openGateway, openStore, createAccount, enter, connect } = useStack();

const KEEP = { RESUME_MS: '60000' };
const FREE_PLAN_MS = 100 * 60_000;
const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 };

async function open() {
  const redis = await openRedis();
  const gateway = await openGateway({ ...KEEP, REDIS_URL: redis.url }, { usage: { freshMs: 1 } });
  const store = await openStore(redis);
  return { redis, gateway, store, accounts: new Accounts(store) };
}

/** Returns the credentials with which a client resumes. */
async function resumption(client: TestClient) {
  const { session_id, resume_token } = await client.next('welcome');
  return { session_id, resume_token };
}

const used = (accountId: number, ms: number) => ({
  accountId,
  writer: 'test',
  minute: new Date().toISOString().slice(0, 16),
  room: 'z',
  websocketMs: ms,
  webrtcMs: 0,
  peakPeers: 1,
});

async function tokenOf(gateway: TestGateway, body: object): Promise<string> {
  const response = await fetch(`${gateway.url}/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ peer: 'alice', rooms: '*', ttl_seconds: 60, publish: true, ...body }),
  });
  return ((await response.json()) as { token: string }).token;
}

test.each(['websocket', 'webrtc'])(
  'a %s peer whose minutes were used up meanwhile is in the lobby, and is told why',
  async (media) => {
    const { redis, gateway, store } = await open();
    const { apiKey, id } = await createAccount(redis, 'free');
    const free = { url: gateway.url, apiKey };
    const alice = await connect(free, { room: '__lobby__' });
    const join = { type: 'join', room: 'a', ...(media === 'webrtc' && { media }) };
    await alice.ask(join, 'joined');
    const session = await resumption(alice);
    alice.vanish();
    await eventually('its place is kept', () => gateway.counts().sessions === 0);
    await new UsageStore(store).write([used(id, FREE_PLAN_MS)]);
    const again = await connect(free, { room: '__lobby__', ...session });
    expect(await again.next('welcome')).toMatchObject({ room: '__lobby__' });
    await eventually('its place is given up', () => gateway.counts().rooms === 0);
    const error =
      media === 'websocket' ? await again.next('error') : await again.ask(join, 'error');
    expect(error).toMatchObject({ code: 'minutes_exhausted', resets_at: expect.any(String) });
    expect(await again.ask({ type: 'leave' }, 'error')).toMatchObject({ code: 'bad_message' });
  },
);

test('kept places end when the account is suspended', async () => {
  const { redis, gateway, accounts } = await open();
  const { apiKey, id } = await createAccount(redis, 'pro');
  const alice = await enter({ url: gateway.url, apiKey }, 'alice');
  alice.vanish();
  await eventually('its place is kept', () => gateway.counts().sessions === 0);
  expect(gateway.counts().rooms).toBe(1);
  await accounts.update(id, { status: 'suspended' });
  await eventually('its place is given up', () => gateway.counts().rooms === 0);
});

test('a kept place ends when its key is revoked, and the others are told', async () => {
  const { redis, gateway, accounts } = await open();
  const { apiKey, id } = await createAccount(redis, 'pro');
  const second = await accounts.addKey(id);
  const bob = await enter({ url: gateway.url, apiKey }, 'bob');
  const alice = await enter({ url: gateway.url, apiKey: second.apiKey }, 'alice');
  alice.vanish();
  await eventually('its place is kept', () => gateway.counts().sessions === 1);
  await accounts.revokeKey(id, second.id);
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'unauthorized' });
});

test('a browser that comes back with a token that does not allow to publish is heard no more', async () => {
  const { gateway } = await open();
  const bob = await connect(gateway, { peer: 'bob', room: '__lobby__' });
  await bob.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const alice = await connect(gateway, { room: '__lobby__' });
  const { webrtc } = await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const produce = {
    type: 'produce',
    kind: 'audio',
    transport_id: webrtc?.send_transport.id,
    rtp_parameters: { codecs: [OPUS], encodings: [{ ssrc: 1 }] },
  };
  const { producer_id } = await alice.ask(produce, 'produced');
  const { consumer_id } = await bob.next('new_consumer');
  const session = await resumption(alice);
  alice.vanish();
  const token = await tokenOf(gateway, { publish: false });
  const query = { api_key: undefined, token, room: '__lobby__', ...session };
  const again = await connect(gateway, query);
  expect(await again.next('welcome')).toMatchObject({ resumed: true, room: 'a' });
  expect(await bob.next('consumer_closed')).toMatchObject({ consumer_id });
  expect(await again.next('error')).toMatchObject({ code: 'forbidden', retryable: false });
  const refused = await again.ask({ type: 'resume_producer', producer_id }, 'error');
  expect(refused).toMatchObject({ code: 'bad_message' });
  expect(await again.ask(produce, 'error')).toMatchObject({ code: 'forbidden' });
});

test('a place in a room that the new token does not grant is given up', async () => {
  const { gateway } = await open();
  const bob = await enter(gateway, 'bob');
  const alice = await enter(gateway, 'alice');
  const session = await resumption(alice);
  alice.vanish();
  const token = await tokenOf(gateway, { rooms: ['b'] });
  const query = { api_key: undefined, token, room: '__lobby__', ...session };
  const again = await connect(gateway, query);
  expect(await again.next('welcome')).toMatchObject({ room: '__lobby__' });
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'forbidden' });
  expect(await again.next('error')).toMatchObject({ code: 'forbidden' });
  await again.ask({ type: 'join', room: 'b' }, 'joined');
});
