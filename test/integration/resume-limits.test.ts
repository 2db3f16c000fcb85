import { expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import type { TestClient } from '../support/client.ts';
import { eventually, type TestGateway } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import { WebRtcClient } from '../support/webrtc-client.ts';

/** A client that comes back never gets more than a new one would. */

const { openRedis, openGateway, openNodes, openStore, createAccount, enter, connect, cleanUps } =
  useStack();

const KEEP = { RESUME_MS: '60000' };
const FREE_PLAN_MS = 100 * 60_000;
const OPUS = { mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 };

async function open() {
  const redis = await openRedis();
  const gateway = await openGateway({ ...KEEP, REDIS_URL: redis.url }, { usage: { freshMs: 1 } });
  const store = await openStore(redis);
  return { redis, gateway, store, accounts: new Accounts(store) };
}

type Media = 'websocket' | 'webrtc';

/** Opens the client of alice, in room a with these media. */
async function enterWith(media: Media, gateway: { url: string; apiKey?: string }) {
  const client = await connect(gateway, { room: '__lobby__' });
  await client.ask({ type: 'join', room: 'a', ...(media === 'webrtc' && { media }) }, 'joined');
  return client;
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

test.each(['websocket', 'webrtc'] as const)(
  'the place of a %s peer ends when the minutes are used up while it is kept, and the others are told',
  async (media) => {
    const redis = await openRedis();
    const timings = { usage: { freshMs: 1, writeEveryMs: 100 } };
    const gateway = await openGateway({ ...KEEP, REDIS_URL: redis.url }, timings);
    const { apiKey, id } = await createAccount(redis, 'free');
    const free = { url: gateway.url, apiKey };
    const bob = await enter(free, 'bob');
    const alice = await enterWith(media, free);
    alice.vanish();
    await eventually('its place is kept', () => gateway.counts().sessions === 1);
    await new UsageStore(await openStore(redis)).write([used(id, FREE_PLAN_MS)]);
    expect(await bob.closed).toBe(4402);
    await eventually('its place is given up', () => gateway.counts().rooms === 0);
  },
);

test.each(['websocket', 'webrtc'] as const)(
  'the kept place of a %s peer ends when the account is suspended',
  async (media) => {
    const { redis, gateway, accounts } = await open();
    const { apiKey, id } = await createAccount(redis, 'pro');
    const alice = await enterWith(media, { url: gateway.url, apiKey });
    alice.vanish();
    await eventually('its place is kept', () => gateway.counts().sessions === 0);
    expect(gateway.counts().rooms).toBe(1);
    await accounts.update(id, { status: 'suspended' });
    await eventually('its place is given up', () => gateway.counts().rooms === 0);
  },
);

test.each(['websocket', 'webrtc'] as const)(
  'the kept place of a %s peer ends when its key is revoked, and the others are told',
  async (media) => {
    const { redis, gateway, accounts } = await open();
    const { apiKey, id } = await createAccount(redis, 'pro');
    const second = await accounts.addKey(id);
    const bob = await enter({ url: gateway.url, apiKey }, 'bob');
    const alice = await enterWith(media, { url: gateway.url, apiKey: second.apiKey });
    alice.vanish();
    await eventually('its place is kept', () => gateway.counts().sessions === 1);
    await accounts.revokeKey(id, second.id);
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'unauthorized' });
  },
);

test.each(['same', 'another'])(
  'a client that comes back to the %s node with a token that does not allow to publish is heard no more',
  async (where) => {
    const [one, other] = await openNodes(2, KEEP);
    const bob = await enter(one!, 'bob');
    const alice = await enter(one!, 'alice');
    const tone = await opusTone(1000, 0.5, 200);
    await play(alice, tone);
    await eventually('it is heard', () => bob.frames.length === tone.length);
    const session = await resumption(alice);
    alice.vanish();
    const token = await tokenOf(one!, { publish: false });
    const query = { api_key: undefined, token, room: '__lobby__', ...session };
    const again = await connect(where === 'same' ? one! : other!, query);
    expect(await again.next('joined')).toMatchObject({ room: 'a' });
    await play(again, tone);
    expect(await again.next('error')).toMatchObject({ code: 'forbidden', retryable: false });
    // It hears, and what it sent before that would have come by then.
    await play(bob, tone);
    await eventually('it hears', () => again.frames.length === tone.length);
    expect(bob.frames.length).toBe(tone.length);
  },
);

test('a client that comes back to another node when the minutes are used up is in no room', async () => {
  const redis = await openRedis();
  const [one, other] = await openNodes(2, KEEP, redis, { usage: { freshMs: 1 } });
  const { apiKey, id } = await createAccount(redis, 'free');
  const alice = await enter({ url: one!.url, apiKey }, 'alice');
  const session = await resumption(alice);
  alice.vanish();
  await eventually('its place is kept', () => one!.counts().sessions === 0);
  await new UsageStore(await openStore(redis)).write([used(id, FREE_PLAN_MS)]);
  const again = await connect({ url: other!.url, apiKey }, { room: '__lobby__', ...session });
  expect(await again.next('error')).toMatchObject({ code: 'minutes_exhausted' });
  expect(other!.counts().rooms).toBe(0);
});

test.each([
  ['suspended', 'websocket'],
  ['revoked', 'websocket'],
  ['suspended', 'webrtc'],
  ['revoked', 'webrtc'],
] as const)('a client whose account or key is %s does not come back (%s)', async (what, media) => {
  const { redis, gateway, accounts } = await open();
  const { apiKey, id, keyId } = await createAccount(redis, 'pro');
  const alice = await enterWith(media, { url: gateway.url, apiKey });
  const session = await resumption(alice);
  alice.vanish();
  await eventually('its place is kept', () => gateway.counts().sessions === 0);
  if (what === 'suspended') await accounts.update(id, { status: 'suspended' });
  else await accounts.revokeKey(id, keyId);
  const again = await connect({ url: gateway.url, apiKey }, { room: '__lobby__', ...session });
  expect(await again.closed).toBe(what === 'suspended' ? 4403 : 4401);
  await eventually('its place is given up', () => gateway.counts().rooms === 0);
});

test('the time without a connection is not counted as minutes where no media flows', async () => {
  const gateway = await openGateway(KEEP, { usage: { writeEveryMs: 50 } });
  const alice = await enter(gateway, 'alice');
  const eve = await connect(gateway, { peer: 'eve', room: '__lobby__' });
  // It never connects its transports.
  await eve.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  alice.vanish();
  eve.vanish();
  await eventually('their places are kept', () => gateway.counts().sessions === 0);
  const seconds = async () => {
    const headers = { authorization: `Bearer ${gateway.apiKey}` };
    const response = await fetch(`${gateway.url}/api/usage?granularity=day`, { headers });
    return ((await response.json()) as { total_seconds: number }).total_seconds;
  };
  // Four times the interval of writes.
  const pause = () => new Promise((resolve) => setTimeout(resolve, 200));
  let [before, sameReads] = [await seconds(), 0];
  await eventually('what came before is written', async () => {
    await pause();
    const now = await seconds();
    sameReads = now > 0 && now === before ? sameReads + 1 : 0;
    before = now;
    return sameReads === 2;
  });
  const fromMs = performance.now();
  await enter(gateway, 'bob');
  let grownS = 0;
  await eventually('a second of another is written', async () => {
    grownS = (await seconds()) - before;
    return grownS > 1;
  });
  // The time of one of the three peers in the room grows; that of two would have grown by twice as
  // much.
  expect(grownS).toBeLessThan((1.5 * (performance.now() - fromMs)) / 1000);
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

test('a browser that comes back to the lobby of another node with a token that does not allow to publish is heard no more', async () => {
  const [one, other] = await openNodes(2, KEEP);
  const bob = await connect(one!, { peer: 'bob', room: '__lobby__' });
  await bob.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const alice = await connect(one!, { room: '__lobby__' });
  const { webrtc } = await alice.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  await alice.ask(
    {
      type: 'produce',
      kind: 'audio',
      transport_id: webrtc?.send_transport.id,
      rtp_parameters: { codecs: [OPUS], encodings: [{ ssrc: 1 }] },
    },
    'produced',
  );
  const { consumer_id } = await bob.next('new_consumer');
  alice.vanish();
  await eventually('its place is kept', () => one!.counts().sessions === 1);
  const token = await tokenOf(one!, { publish: false });
  await connect(other!, { api_key: undefined, token, room: '__lobby__' });
  expect(await bob.next('consumer_closed')).toMatchObject({ consumer_id });
  expect(bob.messages.map(({ type }) => type)).not.toContain('peer_left');
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

test('a client whose connection is lost during its join loses its place like any other', async () => {
  const redis = await openRedis();
  const settings = { RESUME_MS: '3000', REDIS_URL: redis.url };
  const gateway = await openGateway(settings, { usage: { freshMs: 1 } });
  const { apiKey } = await createAccount(redis, 'free');
  const free = { url: gateway.url, apiKey };
  const bob = await enter(free, 'bob');
  const alice = await enter(free, 'alice');
  alice.vanish();
  await eventually('its place is kept', () => gateway.counts().sessions === 1);
  const again = await connect(free, { room: '__lobby__' });
  await again.next('welcome');
  redis.hang();
  again.send({ type: 'join', room: 'a' });
  // The join has been read when this is answered, and awaits the account's minutes.
  await bob.ask({ type: 'configure', volume: {} }, 'configured');
  again.vanish();
  await eventually('the connection is lost', () => gateway.counts().sessions === 1);
  redis.goOn();
  expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice' });
  bob.vanish();
  await eventually('the room is closed', () => gateway.counts().rooms === 0);
});

test('the time of a browser without a connection is counted until its media worker dies', async () => {
  const gateway = await openGateway(KEEP, { usage: { writeEveryMs: 50 } });
  const eve = await connect(gateway, { peer: 'eve', room: '__lobby__' });
  const { webrtc } = await eve.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
  const browser = new WebRtcClient(eve, webrtc);
  cleanUps.push(() => browser.close());
  await browser.produce();
  eve.vanish();
  await eventually('its place is kept', () => gateway.counts().sessions === 0);
  const secondsIn = async (asked: string) => {
    const headers = { authorization: `Bearer ${gateway.apiKey}` };
    const response = await fetch(`${gateway.url}/api/usage?granularity=day`, { headers });
    const { records } = (await response.json()) as {
      records: { room: string; websocket_seconds: number; webrtc_seconds: number }[];
    };
    return records
      .filter(({ room }) => room === asked)
      .reduce((sum, record) => sum + record.websocket_seconds + record.webrtc_seconds, 0);
  };
  const isCountedBeyond = async (room: string, seconds: number) =>
    (await secondsIn(room)) > seconds;
  const beforeS = await secondsIn('a');
  await eventually('half a second is counted', () => isCountedBeyond('a', beforeS + 0.5));
  const pids = gateway.mediaWorkerPids();
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  await eventually('they have died', () => {
    return !gateway.mediaWorkerPids().some((pid) => pids.includes(pid));
  });
  // The time of another peer shows that what has passed is written.
  await enter(gateway, 'bob', { room: 'b' });
  await eventually('later time is written', () => isCountedBeyond('b', 0.2));
  const diedS = await secondsIn('a');
  await eventually('half a second more is written', () => isCountedBeyond('b', 0.7));
  expect(await secondsIn('a')).toBe(diedS);
});
