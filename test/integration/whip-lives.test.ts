import { once } from 'node:events';
import { type IncomingMessage, request as openRequest } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { PLANS } from '../../src/accounts/plans.ts';
import { SigningKeys } from '../../src/accounts/signing-keys.ts';
import { Tokens } from '../../src/accounts/tokens.ts';
import { RoomMedia } from '../../src/rooms/room-media.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { recordedOffer } from '../support/offers.ts';
import { decodeOpus, joinPcm, opusTone, peakHz, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';
import { postOffer, WhipClient, type WhipTarget } from '../support/whip-client.ts';

/** Tests of the end of sessions of WHIP and WHEP, and of the answers of any node for them. */

const { openRedis, openGateway, openNodes, openStore, createAccount, connect, enter, cleanUps } =
  useStack();

const SPEAKER = recordedOffer('chromium-whip');
const PLAYER = recordedOffer('chromium-whep');

const ask = ({ url, apiKey }: WhipTarget, path: string, method = 'GET', init: RequestInit = {}) =>
  fetch(url + path, {
    method,
    ...init,
    headers: { authorization: `Bearer ${apiKey}`, ...(init.headers as Record<string, string>) },
  });
const statusOf = async (...request: Parameters<typeof ask>) => (await ask(...request)).status;
const locationOf = (response: Response) => response.headers.get('location') ?? '';
/** Kills a process, unless the gateway has killed it, because it hung. */
const killIfThere = (pid: number) => {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (fault) {
    if ((fault as NodeJS.ErrnoException).code !== 'ESRCH') throw fault;
  }
};
const joinedBy = ({ messages }: TestClient): string[] =>
  messages.flatMap((message) => (message.type === 'peer_joined' ? [message.peer] : []));
const join = async (kind: 'whip' | 'whep', target: WhipTarget, path: string) => {
  const client = await WhipClient.connect(kind, target, path);
  cleanUps.push(() => client.close());
  return client;
};

test('a session of a client that never connects is freed, with its place', async () => {
  const timings = { whip: { connectWithinMs: 300 }, sessions: { beatEveryMs: 50 } };
  const gateway = await openGateway({}, timings);
  const alice = await enter(gateway, 'alice');
  const made = await postOffer(gateway, '/whep/a?peer=player', PLAYER);
  expect(made.status).toBe(201);
  expect(await alice.next('peer_left')).toMatchObject({ peer: 'player', reason: 'closed' });
  expect(await statusOf(gateway, locationOf(made))).toBe(404);
});

test('any node answers for a session, and a half finds the other wherever it is', async () => {
  const [one, two] = await openNodes(2);
  const alice = await enter(two!, 'alice');
  const made = await postOffer(one!, '/whip/a?peer=obs', SPEAKER);
  expect(made.status).toBe(201);
  await alice.next('peer_joined');
  const other = await postOffer(two!, '/whep/a?peer=obs', PLAYER);
  expect(other.status).toBe(201);
  const [path, otherPath] = [locationOf(made), locationOf(other)];
  // The second half is on the node of the first.
  expect(otherPath.slice(0, '/whep/sessions/'.length + 16)).toBe(
    path.slice(0, '/whip/sessions/'.length + 16).replace('whip', 'whep'),
  );
  for (const node of [one!, two!]) {
    expect(await statusOf(node, path)).toBe(200);
    expect(await statusOf(node, otherPath)).toBe(200);
  }
  const headers = { 'content-type': 'application/trickle-ice-sdpfrag', 'if-match': '*' };
  const body = 'a=ice-ufrag:fresh\r\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\r\n';
  const restarted = await ask(two!, path, 'PATCH', { headers, body });
  expect(restarted.status).toBe(200);
  const stale = await ask(two!, path, 'PATCH', {
    headers: { ...headers, 'if-match': made.headers.get('etag') ?? '' },
    body,
  });
  expect(stale.status).toBe(412);
  expect(await statusOf(two!, path, 'DELETE')).toBe(200);
  expect(await statusOf(one!, path)).toBe(404);
  expect(await statusOf(one!, otherPath)).toBe(200);
  expect(await statusOf(two!, otherPath, 'DELETE')).toBe(200);
  await alice.next('peer_left');
  expect(alice.messages.filter(({ type }) => type === 'peer_joined')).toHaveLength(1);
  expect(await statusOf(one!, `/whip/sessions/${'0'.repeat(48)}`, 'DELETE')).toBe(404);
});

test('two halves that come to two nodes at the same moment are one peer', async () => {
  const [one, two] = await openNodes(2);
  const alice = await enter(two!, 'alice');
  const peers = ['p1', 'p2', 'p3', 'p4', 'p5'];
  const made = await Promise.all(
    peers.flatMap((peer, i) => {
      const [first, second] = i % 2 === 0 ? [one!, two!] : [two!, one!];
      return [
        postOffer(first, `/whip/a?peer=${peer}`, SPEAKER),
        postOffer(second, `/whep/a?peer=${peer}`, PLAYER),
      ];
    }),
  );
  expect(made.map(({ status }) => status)).toEqual(made.map(() => 201));
  for (const half of made) expect(await statusOf(one!, locationOf(half))).toBe(200);
  await alice.until('all', () => (joinedBy(alice).length === peers.length ? true : undefined));
  expect(one!.counts().sessions + two!.counts().sessions).toBe(1 + peers.length);
  for (const half of made) expect(await statusOf(two!, locationOf(half), 'DELETE')).toBe(200);
  await eventually('all are gone', () => one!.counts().sessions + two!.counts().sessions === 1);
  expect(joinedBy(alice).toSorted()).toEqual(peers);
});

test('a media worker that dies in the middle of opening a session leaves nothing of it', async () => {
  const timings = { sessions: { beatEveryMs: 50 }, mediaWorkers: { firstReplacementMs: 50 } };
  const gateway = await openGateway({ MEDIA_WORKERS: '1' }, timings);
  const ccu = async () => {
    const me = (await (await ask(gateway, '/api/me')).json()) as {
      summary: { current_ccu: number };
    };
    return me.summary.current_ccu;
  };
  for (const [path, offer, opens] of [
    ['/whip/a?peer=obs', SPEAKER, 'openInput'],
    ['/whep/a?peer=player', PLAYER, 'openOutput'],
  ] as const) {
    // Its room has a router then, so that the next session gets as far as its own media.
    await eventually('there is a media worker', async () => {
      return (await postOffer(gateway, '/whip/a?peer=first', SPEAKER)).status === 201;
    });
    const [pid] = gateway.mediaWorkerPids();
    // It answers nothing from now on, so that it dies in the middle.
    process.kill(pid!, 'SIGSTOP');
    const opening = vi.spyOn(RoomMedia.prototype, opens);
    onTestFinished(() => opening.mockRestore());
    const posted = postOffer(gateway, path, offer);
    // It waits for its media from then on.
    await eventually('it is being opened', () => opening.mock.calls.length === 1);
    killIfThere(pid!);
    const answered = await posted;
    // 201 if it asked for media only when there was another media worker.
    expect([201, 503]).toContain(answered.status);
    if (answered.ok) await statusOf(gateway, locationOf(answered), 'DELETE');
    await eventually('nothing is left', async () => (await ccu()) === 0);
    expect(gateway.counts()).toEqual({ sessions: 0, rooms: 0 });
  }
});

test('a POST whose media cannot be opened ends no other connection of its peer', async () => {
  const gateway = await openGateway({}, { sessions: { movesWithinMs: 1 } });
  const alice = await enter(gateway, 'alice');
  const socket = await enter(gateway, 'obs');
  const openInput = vi.spyOn(RoomMedia.prototype, 'openInput').mockImplementationOnce(async () => {
    await delay(200);
    throw new Error('no descriptor is left');
  });
  onTestFinished(() => openInput.mockRestore());
  const refused = await postOffer(gateway, '/whip/a?peer=obs', SPEAKER);
  expect(refused.status).toBe(500);
  expect(await socket.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
  expect(await alice.next('peer_left')).toMatchObject({ peer: 'obs', reason: 'left' });
});

test('a session is metered while it is connected, both halves of a peer once; it ends with the month’s minutes, and none begins without them', async () => {
  const redis = await openRedis();
  const timings = { usage: { freshMs: 1, writeEveryMs: 100 } };
  const gateway = await openGateway({ REDIS_URL: redis.url }, timings);
  const { apiKey, id } = await createAccount(redis, 'free');
  const target = { url: gateway.url, apiKey };
  const startMs = performance.now();
  const idle = await postOffer(target, '/whip/a?peer=idle', SPEAKER);
  expect(idle.status).toBe(201);
  const made = await join('whip', target, '/whip/a?peer=obs');
  const half = await join('whep', target, '/whep/a?peer=obs');
  const usedMs = async () => {
    const { summary } = (await (await ask(target, '/api/me')).json()) as {
      summary: { total_minutes: number };
    };
    return summary.total_minutes * 60_000;
  };
  // Minutes are told in hundredths, 600 ms; four seconds differ from eight by more than that.
  await eventually('four seconds are counted', async () => (await usedMs()) > 4000);
  const countedMs = (await usedMs()) - 600;
  expect(countedMs).toBeLessThan(performance.now() - startMs);
  await new UsageStore(await openStore(redis)).write([
    {
      accountId: id,
      writer: 'test',
      minute: new Date().toISOString().slice(0, 16),
      room: 'z',
      websocketMs: PLANS.free.minutesPerMonth * 60_000,
      webrtcMs: 0,
      peakPeers: 1,
    },
  ]);
  for (const path of [made.location, half.location, locationOf(idle)]) {
    await eventually('it is 404', async () => (await statusOf(target, path)) === 404);
  }
  const refused = await postOffer(gateway, '/whep/a?peer=late', PLAYER, { key: apiKey });
  expect(refused.status).toBe(402);
  expect(await refused.json()).toMatchObject({ code: 'minutes_exhausted' });
  expect(gateway.counts()).toEqual({ sessions: 0, rooms: 0 });
});

test('a player on one node hears a speaker on another', async () => {
  const [one, two] = await openNodes(2);
  const speaker = await join('whip', one!, '/whip/a?peer=obs');
  const player = await join('whep', two!, '/whep/a?peer=player');
  const legacy = await enter(two!, 'legacy', { audio: 'pcm_s16le;rate=48000;channels=1' });
  speaker.talk(await opusTone(700, 0.3, 1000));
  await eventually('the player hears it', async () => {
    const payloads = player.heard.slice(-60).map(({ payload }) => payload);
    return payloads.length === 60 && peakHz((await decodeOpus(payloads)).slice(-24_000)) === 700;
  });
  await eventually('so does a legacy client', () => {
    const frames = legacy.frames.slice(-40);
    return frames.length === 40 && peakHz(joinPcm(frames)) === 700;
  });
});

test('a session ends with the account’s right to it', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url });
  const accounts = new Accounts(await openStore(redis));
  const revoked = await createAccount(redis, 'starter');
  const suspended = await createAccount(redis, 'starter');
  const sessions = await Promise.all(
    [revoked, suspended].map(({ apiKey }) =>
      postOffer(gateway, '/whip/a?peer=obs', SPEAKER, { key: apiKey }),
    ),
  );
  expect(sessions.map(({ status }) => status)).toEqual([201, 201]);
  expect(gateway.counts().sessions).toBe(2);
  await accounts.revokeKey(revoked.id, revoked.keyId);
  await accounts.update(suspended.id, { status: 'suspended' });
  await eventually('both have ended', () => gateway.counts().sessions === 0);
  const refused = await postOffer(gateway, '/whip/a?peer=obs', SPEAKER, { key: suspended.apiKey });
  expect(refused.status).toBe(403);
});

test('a session outlasts its token, which restarts and ends it until its signing key is withdrawn', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url });
  const { id: accountId, apiKey, keyId } = await createAccount(redis, 'starter');
  const store = await openStore(redis);
  const tokenOf = async (wallMs: number) => {
    const tokens = new Tokens(new SigningKeys(store, { wallMs: () => wallMs }));
    const grant = { peer: 'obs', rooms: '*' as const, publish: true, ttl_seconds: 60 };
    return (await tokens.issue({ accountId, keyId }, grant)).token;
  };
  const expired = { url: gateway.url, apiKey: await tokenOf(Date.now() - 3_600_000) };
  const key = await tokenOf(Date.now());
  const made = await postOffer(gateway, '/whip/a', SPEAKER, { key });
  const half = await postOffer(gateway, '/whep/a', PLAYER, { key });
  const foreign = await postOffer(gateway, '/whip/a?peer=other', SPEAKER, { key: apiKey });
  expect([made.status, half.status, foreign.status]).toEqual([201, 201, 201]);
  expect((await postOffer(expired, '/whip/a', SPEAKER)).status).toBe(401);
  const headers = { 'content-type': 'application/trickle-ice-sdpfrag', 'if-match': '*' };
  const body = 'a=ice-ufrag:fresh\r\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\r\n';
  expect((await ask(expired, locationOf(made), 'PATCH', { headers, body })).status).toBe(200);
  expect(await statusOf(expired, locationOf(foreign), 'DELETE')).toBe(404);
  expect(await statusOf(expired, locationOf(made), 'DELETE')).toBe(200);
  expect(await statusOf(expired, locationOf(half))).toBe(200);
  await new SigningKeys(store, { wallMs: Date.now }).rotate(true);
  await eventually('the session has ended', () => gateway.counts().sessions === 1);
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    expect(await statusOf(expired, locationOf(half), method)).toBe(401);
  }
});

test('a session ends whose key was revoked before its node was asked for it', async () => {
  const redis = await openRedis();
  const [one, two] = await openNodes(2, {}, redis);
  const { id, apiKey: revoked, keyId } = await createAccount(redis, 'starter');
  const accounts = new Accounts(await openStore(redis));
  const { apiKey: key } = await accounts.addKey(id);
  const half = await postOffer(two!, '/whep/a?peer=obs', PLAYER, { key });
  const witness = await postOffer(two!, '/whep/a?peer=witness', PLAYER, { key: revoked });
  expect([half.status, witness.status]).toEqual([201, 201]);
  const { hostname, port } = new URL(one!.url);
  const posting = openRequest({
    host: hostname,
    port,
    method: 'POST',
    path: '/whip/a?peer=obs',
    headers: {
      authorization: `Bearer ${revoked}`,
      'content-type': 'application/sdp',
      'content-length': Buffer.byteLength(SPEAKER),
    },
  });
  const answered = once(posting, 'response') as Promise<[IncomingMessage]>;
  posting.flushHeaders();
  // It is authenticated when a later request is.
  expect(await statusOf({ url: one!.url, apiKey: revoked }, '/api/me')).toBe(200);
  await accounts.revokeKey(id, keyId);
  const owner = { url: two!.url, apiKey: key };
  await eventually('its node has heard of it', async () => {
    return (await statusOf(owner, locationOf(witness))) === 404;
  });
  posting.end(SPEAKER);
  const [response] = await answered;
  response.resume();
  expect(response.statusCode).toBe(201);
  await eventually('its session has ended', async () => {
    return (await statusOf(owner, response.headers.location ?? '')) === 404;
  });
  expect(await statusOf(owner, locationOf(half))).toBe(200);
});

test('the connections of the plan are all that there are', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url });
  const { apiKey } = await createAccount(redis, 'free');
  const posted: Response[] = [];
  for (let i = 0; i < 6; i += 1) {
    posted.push(await postOffer(gateway, `/whep/a?peer=p${i}`, PLAYER, { key: apiKey }));
  }
  expect(posted.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201, 429]);
  const last = posted[5]!;
  expect(last.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await last.json()).toMatchObject({ code: 'ccu_limit' });
  expect(gateway.counts().sessions).toBe(5);
});

test('requests have their budgets: of an account, and of an address whose keys are wrong', async () => {
  const redis = await openRedis();
  const budgets = { REQUESTS_PER_ACCOUNT: '3', AUTH_FAILURES_PER_ADDRESS: '5' };
  const gateway = await openGateway({ REDIS_URL: redis.url, ...budgets });
  const one = await createAccount(redis, 'free');
  const other = { url: gateway.url, apiKey: (await createAccount(redis, 'free')).apiKey };
  const target = { url: gateway.url, apiKey: one.apiKey };
  const offer = (path: string, key: string, sdp = SPEAKER) =>
    postOffer(gateway, path, sdp, { key });
  const isRefused = async (response: Response) => {
    expect(response.status).toBe(429);
    expect(response.headers.get('content-type')).toContain('application/problem+json');
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await response.json()).toMatchObject({ status: 429, code: 'rate_limited' });
  };
  const paths = new Map<WhipTarget, string>();
  for (const of of [target, other]) {
    const made = await offer('/whip/a?peer=obs', of.apiKey);
    expect(made.status).toBe(201);
    paths.set(of, locationOf(made));
  }
  // Every request about a session is counted.
  const ofOne = paths.get(target)!;
  for (let i = 0; i < 3; i += 1) expect(await statusOf(target, ofOne)).toBe(200);
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    await isRefused(await ask(target, ofOne, method));
  }
  await isRefused(await ask(target, ofOne.replace('whip', 'whep')));
  expect(await statusOf(other, paths.get(other)!)).toBe(200);
  // A POST counts as a connection, whatever comes of it: 215 at once are let through on this plan.
  const posted: number[] = [];
  while (posted.length < 300 && posted.at(-1) !== 429) {
    const path = posted.length % 2 === 0 ? '/whip/a?peer=obs' : '/whep/a?peer=obs';
    posted.push((await offer(path, one.apiKey, 'not SDP')).status);
  }
  expect(posted.filter((status) => status === 400).length).toBeGreaterThanOrEqual(214);
  await isRefused(await offer('/whep/a?peer=obs', one.apiKey, PLAYER));
  const socket = await connect(gateway, { api_key: one.apiKey });
  expect(await socket.closed).toBe(4429);
  expect((await offer('/whep/a?peer=obs', other.apiKey, PLAYER)).status).toBe(201);
  // Strangers: a key that is good is let in from the same address.
  for (let i = 0; i < 5; i += 1) {
    expect((await offer('/whip/a?peer=obs', `pl_guess-${i}`)).status).toBe(401);
  }
  for (const stranger of [`pl_guess-6`, 'no.such.token']) {
    const guess = { url: gateway.url, apiKey: stranger };
    await isRefused(await offer('/whip/a?peer=obs', stranger));
    await isRefused(await ask(guess, paths.get(other)!, 'DELETE'));
  }
  expect(await statusOf(other, paths.get(other)!)).toBe(200);
  expect(gateway.counts().sessions).toBe(2);
});

test('a session of an account that connects too often is restarted and ended', async () => {
  const redis = await openRedis();
  const timings = { budgets: { blockMs: 60_000 } };
  const gateway = await openGateway({ REDIS_URL: redis.url }, timings);
  const { apiKey } = await createAccount(redis, 'free');
  const target = { url: gateway.url, apiKey };
  const tokenRequest = {
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ peer: 'obs', rooms: '*', ttl_seconds: 60, publish: true }),
  };
  const tokenAnswer = await ask(target, '/api/tokens', 'POST', tokenRequest);
  const { token } = (await tokenAnswer.json()) as { token: string };
  const path = locationOf(await postOffer(gateway, '/whip/a?peer=obs', SPEAKER, { key: apiKey }));
  // Each counts as a connection, although it is refused.
  const offer = () => postOffer(gateway, '/whep/a?peer=obs', 'not SDP', { key: apiKey });
  const statuses: number[] = [];
  while (!statuses.includes(429)) {
    const answers = await Promise.all(Array.from({ length: 50 }, offer));
    statuses.push(...answers.map(({ status }) => status));
  }
  const body = 'a=ice-ufrag:fresh\r\na=ice-pwd:vw5LmwG4y/e6dPP/zAP9Gp5k\r\n';
  const headers = { 'content-type': 'application/trickle-ice-sdpfrag', 'if-match': '*' };
  expect(await statusOf(target, path, 'PATCH', { headers, body })).toBe(200);
  expect(await statusOf({ url: gateway.url, apiKey: token }, path)).toBe(200);
  expect(await statusOf(target, path, 'DELETE')).toBe(200);
  expect((await postOffer(gateway, '/whep/a?peer=obs', PLAYER, { key: token })).status).toBe(429);
});

test('a POST that is refused counts once, on the node that was asked', async () => {
  const [one, two] = await openNodes(2);
  const made = await postOffer(one!, '/whip/a?peer=obs', SPEAKER);
  const refused = [
    // The second node asks the first, which has the other half, and that one refuses.
    await postOffer(two!, '/whep/a?peer=obs&from=ghost', PLAYER),
    await postOffer(two!, '/whep/a', PLAYER),
    await postOffer(two!, '/whip/a?peer=vlc', SPEAKER, { key: 'pl_wrong' }),
    await postOffer(two!, '/whip/a?peer=vlc', SPEAKER, { type: 'text/plain' }),
    await postOffer(two!, '/whip/a?peer=vlc', `${SPEAKER}${'a=x\r\n'.repeat(20_000)}`),
  ];
  expect(refused.map(({ status }) => status)).toEqual([404, 400, 401, 415, 413]);
  // Only a POST asks for a place.
  expect(await statusOf(two!, `/whip/sessions/${'0'.repeat(48)}`, 'DELETE')).toBe(404);
  const refusals = async ({ url }: WhipTarget) => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    const lines = metrics.matchAll(/^partyline_refusals_total\{reason="(\w+)"\} (\d+)$/gm);
    return Object.fromEntries([...lines].map(([, reason, count]) => [reason, Number(count)]));
  };
  expect(await refusals(one!)).toEqual({});
  expect(await refusals(two!)).toEqual({
    not_found: 1,
    bad_request: 1,
    unauthorized: 1,
    unsupported_media_type: 1,
    message_too_big: 1,
  });
  expect(await statusOf(one!, locationOf(made), 'DELETE')).toBe(200);
});

test('while a node drains it takes nobody, and those that are there stay', async () => {
  const gateway = await openGateway();
  const made = await postOffer(gateway, '/whip/a?peer=obs', SPEAKER);
  const left = gateway.leave(20_000);
  const refused = await postOffer(gateway, '/whip/a?peer=late', SPEAKER);
  expect(refused.status).toBe(503);
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
  expect(await statusOf(gateway, locationOf(made))).toBe(200);
  expect(await statusOf(gateway, locationOf(made), 'DELETE')).toBe(200);
  await left;
  expect(gateway.counts()).toEqual({ sessions: 0, rooms: 0 });
});

test('a peer of a node that drains is taken by another, with both halves', async () => {
  const [one, two] = await openNodes(2);
  const before = await postOffer(one!, '/whip/a?peer=obs', SPEAKER);
  expect(before.status).toBe(201);
  const left = one!.leave(20_000);
  const made = await postOffer(two!, '/whip/a?peer=obs', SPEAKER);
  expect(made.status).toBe(201);
  expect((await postOffer(two!, '/whep/a?peer=obs', PLAYER)).status).toBe(201);
  // The session there is replaced, so that the drain need not wait for it.
  await left;
  expect(await statusOf(two!, locationOf(before))).toBe(404);
  expect(two!.counts().sessions).toBe(1);
  expect(await statusOf(two!, locationOf(made))).toBe(200);
});

test('at the deadline of a drain DTLS is closed', async () => {
  const gateway = await openGateway();
  const speaker = await WhipClient.connect('whip', gateway, '/whip/a?peer=obs');
  cleanUps.push(() => speaker.vanish());
  const left = gateway.leave(3000);
  expect((await speaker.ask('GET')).status).toBe(200);
  await left;
  expect(gateway.counts()).toEqual({ sessions: 0, rooms: 0 });
  await eventually('its client is told', () => speaker.isEnded);
});

test('when a media worker dies its sessions stay for RESUME_MS, and a new POST finds its place', async () => {
  const timings = { sessions: { beatEveryMs: 50 }, mediaWorkers: { firstReplacementMs: 50 } };
  const gateway = await openGateway({ MEDIA_WORKERS: '1', RESUME_MS: '10000' }, timings);
  const legacy = await connect(gateway, { audio: 'pcm_s16le;rate=48000;channels=1' });
  await legacy.next('joined');
  const speaker = await join('whip', gateway, '/whip/a?peer=obs');
  const player = await join('whep', gateway, '/whep/a?peer=player');
  const [pid] = gateway.mediaWorkerPids();
  process.kill(pid!, 'SIGKILL');
  await eventually('it is replaced', () => {
    const [next] = gateway.mediaWorkerPids();
    return next !== undefined && next !== pid;
  });
  for (const client of [speaker, player]) expect((await client.ask('GET')).status).toBe(200);
  const again = await join('whip', gateway, '/whip/a?peer=obs');
  again.talk(await opusTone(700, 0.3, 1000));
  await eventually('it is heard', () => {
    const frames = legacy.frames.slice(-40);
    return frames.length === 40 && peakHz(joinPcm(frames)) === 700;
  });
  // The player does not come back.
  expect(await legacy.next('peer_left')).toMatchObject({ peer: 'player', reason: 'media_lost' });
  for (const client of [speaker, player]) expect((await client.ask('GET')).status).toBe(404);
  expect((await again.ask('GET')).status).toBe(200);
  expect(legacy.messages.filter(({ type }) => type === 'peer_left')).toHaveLength(1);
});

test('all that hear the same over WHEP and WebSockets share one encode', async () => {
  const gateway = await openGateway();
  const players: WhipClient[] = [];
  for (const peer of ['p1', 'p2', 'p3']) {
    players.push(await join('whep', gateway, `/whep/a?peer=${peer}`));
  }
  const silent = await enter(gateway, 'silent');
  const speakers = [await enter(gateway, 's1'), await enter(gateway, 's2')];
  const sounds = await Promise.all([500, 800].map((hz) => opusTone(hz, 0.2, 2500)));
  await Promise.all(speakers.map((speaker, i) => play(speaker, sounds[i]!)));
  await eventually('all have heard', () => players.every(({ heard }) => heard.length > 150));
  // The same bytes reach all listeners: the mix was encoded once.
  const mixed = new Set(silent.frames.slice(-60).map((frame) => frame.toString('base64')));
  for (const { heard } of players) {
    const same = heard.filter(({ payload }) => mixed.has(payload.toString('base64')));
    expect(same.length).toBeGreaterThan(20);
  }
});
