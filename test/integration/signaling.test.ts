import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually, openTestGateway, type TestGateway } from '../support/gateway.ts';
import { opusTone, play } from '../support/sound.ts';

let gateway: TestGateway;
const clients: TestClient[] = [];

beforeAll(async () => {
  gateway = await openTestGateway();
});
afterAll(() => gateway.close());
afterEach(async () => {
  for (const client of clients.splice(0)) client.vanish();
  await eventually('everything is let go', async () => {
    const { sessions, rooms } = gateway.counts();
    return sessions + rooms === 0 && (await gateway.countRouters()) === 0;
  });
});

async function connect(query: Record<string, string> = {}): Promise<TestClient> {
  const client = await TestClient.connect(gateway.url, {
    room: '__lobby__',
    peer: 'alice',
    api_key: gateway.apiKey,
    ...query,
  });
  clients.push(client);
  return client;
}

const enter = async (peer: string, room = 'a') => {
  const client = await connect({ peer, room });
  await client.next('joined');
  return client;
};

describe('lobby and rooms', () => {
  test('welcome comes first, and says all that there is to say', async () => {
    const client = await connect();
    await client.next('welcome');
    expect(client.messages[0]).toEqual({
      type: 'welcome',
      peer: 'alice',
      room: '__lobby__',
      session_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      audio: { in: 'opus', out: 'opus', delivery: 'mix' },
      limits: { max_ccu: 500, current_ccu: 1, remaining_minutes: 1_000_000_000 },
      heartbeat_ms: 15_000,
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
      { peer: 'alice', kind: 'websocket', speaker: expect.any(Number) },
    ]);
    const { speaker } = joined;
    expect(await alice.next('peer_joined')).toEqual({
      type: 'peer_joined',
      peer: 'bob',
      kind: 'websocket',
      speaker,
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
    await eventually('all have gone', () => gateway.counts().sessions === 0);
  });

  test('a peer that connects again replaces itself, at no second place of the account', async () => {
    const bob = await enter('bob');
    const before = await enter('alice');
    const after = await connect({ peer: 'alice', room: 'a' });
    expect(await before.closed).toBe(4409);
    expect(await before.next('error')).toMatchObject({ code: 'replaced', retryable: false });
    expect((await after.next('welcome')).limits.current_ccu).toBe(2);
    await after.next('joined');
    expect(await bob.next('peer_left')).toMatchObject({ peer: 'alice', reason: 'replaced' });
    expect(
      (
        await bob.until(
          'second peer_joined',
          () => bob.messages.filter(({ type }) => type === 'peer_joined')[1],
        )
      ).type,
    ).toBe('peer_joined');
  });

  test.each(['会議室', 'a b/c?d&e=f%', '😀'.repeat(128), 'x'.repeat(128)])(
    'the name "%s" goes in and comes out as it is',
    async (name) => {
      const client = await connect({ peer: name, room: name });
      expect(await client.next('joined')).toMatchObject({ room: name });
      expect((await client.next('welcome')).peer).toBe(name);
    },
  );

  test('a client that reads nothing and only sends is heard', async () => {
    const bob = await enter('bob', 'a');
    const mute = await enter('mute', 'a');
    const tone = await opusTone(1000, 0.5, 400);
    await play(mute, tone);
    await eventually('all frames', () => bob.frames.length === tone.length);
  });
});

describe('bad input', () => {
  test.each([
    ['no room', { room: undefined }, 4400, 'bad_request'],
    ['no peer', { peer: undefined }, 4400, 'bad_request'],
    ['an empty peer', { peer: '' }, 4400, 'bad_request'],
    ['a reserved peer', { peer: '__x' }, 4400, 'bad_request'],
    ['a reserved room', { room: '__x' }, 4400, 'bad_request'],
    ['a peer of 129 characters', { peer: 'x'.repeat(129) }, 4400, 'bad_request'],
    ['a delivery that is not known', { delivery: 'pigeon' }, 4400, 'bad_request'],
    ['no key', { api_key: undefined }, 4401, 'unauthorized'],
    ['an unknown key', { api_key: 'pl_unknown' }, 4401, 'unauthorized'],
    ['an audio that is not known', { audio: 'mp3' }, 4415, 'unsupported_audio'],
    [
      'a rate that is not known',
      { audio: 'pcm_s16le;rate=7999;channels=1' },
      4415,
      'unsupported_audio',
    ],
  ])('a connection with %s is told why, and closed', async (_name, wrong, closeCode, code) => {
    const query = { room: '__lobby__', peer: 'alice', api_key: gateway.apiKey, ...wrong };
    const client = await TestClient.connect(gateway.url, query);
    expect(await client.closed).toBe(closeCode);
    expect(client.messages).toEqual([
      { type: 'error', code, message: expect.any(String), retryable: false },
    ]);
  });

  test.each([
    ['malformed JSON', '{"type":'],
    ['no object', '[]'],
    ['an unknown type', { type: 'dance', id: 'x' }],
    ['a join without a room', { type: 'join', id: 'x' }],
    ['a join of a number', { type: 'join', room: 7, id: 'x' }],
    ['a join of no name', { type: 'join', room: '', id: 'x' }],
    ['a join of an over-long name', { type: 'join', room: 'x'.repeat(129), id: 'x' }],
    ['a join of a reserved name', { type: 'join', room: '__lobby__', id: 'x' }],
    ['a join of a control character', { type: 'join', room: 'a\u0000', id: 'x' }],
    ['leave in the lobby', { type: 'leave', id: 'x' }],
    [
      'produce without a room',
      { type: 'produce', transport_id: 't', kind: 'audio', rtp_parameters: {}, id: 'x' },
    ],
  ])('%s is refused, and the session goes on', async (_name, message) => {
    const client = await connect();
    const error = await client.ask(message, 'error');
    expect(error).toMatchObject({ code: 'bad_message', retryable: false });
    expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
  });

  test('the 20th bad message in 10 s is the last', async () => {
    const client = await connect();
    for (let i = 0; i < 20; i += 1) client.send('{');
    expect(await client.closed).toBe(4400);
    const errors = client.messages.filter(({ type }) => type === 'error');
    expect(errors).toHaveLength(20);
  });

  test('binary frames in the lobby, and empty ones in a room, change nothing', async () => {
    const client = await connect();
    for (let i = 0; i < 50; i += 1) client.sendAudio(Buffer.from([1, 2, 3]));
    expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ peers: [] });
    client.sendAudio(Buffer.alloc(0));
    expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
    expect(client.messages.filter(({ type }) => type === 'error')).toEqual([]);
  });

  test('a message of 64 KiB is taken, one byte more is not', async () => {
    const client = await connect({ room: 'a', audio: 'pcm_s16le;rate=48000;channels=1' });
    await client.next('joined');
    client.sendAudio(Buffer.alloc(65_536));
    await client.ask({ type: 'leave' }, 'left');
    client.sendAudio(Buffer.alloc(65_537));
    expect(await client.closed).toBe(1009);
    expect(await client.next('error')).toMatchObject({ code: 'message_too_big' });
  });

  test('a message of two MiB closes the socket, and nothing else', async () => {
    const client = await connect({ room: 'a' });
    client.sendAudio(Buffer.alloc(2 << 20));
    expect(await client.closed).toBe(1009);
  });

  test('bytes that are not Opus are refused', async () => {
    const client = await connect({ room: 'a', audio: 'opus' });
    await client.next('joined');
    for (let i = 0; i < 10; i += 1) client.sendAudio(Buffer.from([0xff, 0x00, 0x01]));
    expect(await client.closed).toBe(4415);
    expect(await client.next('error')).toMatchObject({ code: 'unsupported_audio' });
  });

  test('a client that answers no ping is given up after 30 s', { timeout: 40_000 }, async () => {
    const [bob, deaf] = [
      await enter('bob'),
      await TestClient.connect(
        gateway.url,
        { room: 'a', peer: 'deaf', api_key: gateway.apiKey },
        { autoPong: false },
      ),
    ];
    expect(await deaf.closed).toBe(4408);
    expect(await bob.next('peer_left')).toMatchObject({
      peer: 'deaf',
      reason: 'heartbeat_timeout',
    });
  });
});

describe('WebRTC signaling', () => {
  const joinWebRtc = async () => {
    const client = await connect();
    const joined = await client.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    if (!joined.webrtc) throw new Error('no webrtc in joined');
    return { client, webrtc: joined.webrtc };
  };

  test('join with media webrtc describes the router and two transports', async () => {
    const { webrtc } = await joinWebRtc();
    expect(webrtc.router_rtp_capabilities.codecs?.[0]).toMatchObject({ mimeType: 'audio/opus' });
    for (const transport of [webrtc.send_transport, webrtc.recv_transport]) {
      const protocols = transport.ice_candidates.map(({ protocol }) => protocol);
      expect(protocols).toEqual(['udp', 'tcp']);
      expect(transport.dtls_parameters.fingerprints.length).toBeGreaterThan(0);
    }
  });

  test.each([
    [
      'connect_transport of an unknown transport',
      { type: 'connect_transport', transport_id: 'x', dtls_parameters: {} },
    ],
    [
      'produce on an unknown transport',
      { type: 'produce', transport_id: 'x', kind: 'audio', rtp_parameters: {} },
    ],
    ['resume_consumer of an unknown consumer', { type: 'resume_consumer', consumer_id: 'x' }],
    ['pause_producer of an unknown producer', { type: 'pause_producer', producer_id: 'x' }],
    ['restart_ice of an unknown transport', { type: 'restart_ice', transport_id: 'x' }],
  ])('%s is refused, and the peer stays in the room', async (_name, message) => {
    const { client } = await joinWebRtc();
    const error = await client.ask({ ...message, id: '9' }, 'error');
    expect(error).toMatchObject({ code: 'bad_message', reply_to: '9' });
    expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
  });

  test('parameters that mediasoup refuses are the client’s fault, not ours', async () => {
    const { client, webrtc } = await joinWebRtc();
    const transportId = webrtc.send_transport.id;
    const wrong = [
      {
        type: 'connect_transport',
        transport_id: transportId,
        dtls_parameters: { fingerprints: 7 },
      },
      {
        type: 'produce',
        transport_id: transportId,
        kind: 'audio',
        rtp_parameters: { codecs: 'x' },
      },
    ];
    for (const message of wrong) {
      expect(await client.ask(message, 'error')).toMatchObject({ code: 'bad_message' });
    }
  });

  test('restart_ice gives new parameters', async () => {
    const { client, webrtc } = await joinWebRtc();
    const { id, ice_parameters: before } = webrtc.send_transport;
    const restarted = await client.ask({ type: 'restart_ice', transport_id: id }, 'ice_restarted');
    expect(restarted.ice_parameters.usernameFragment).not.toBe(before.usernameFragment);
  });
});

describe('GET /api/me', () => {
  const me = (headers: Record<string, string>) => fetch(`${gateway.url}/api/me`, { headers });

  test('answers with the account and what it has used', async () => {
    const clientOfTheAccount = await connect();
    await clientOfTheAccount.next('welcome');
    const response = await me({ authorization: `Bearer ${gateway.apiKey}` });
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      account: { id: 1, name: 'Demo', email: 'demo@localhost', plan: 'pro', status: 'active' },
      summary: {
        total_minutes: 0,
        remaining_minutes: 1_000_000_000,
        current_ccu: 1,
        max_ccu: 500,
      },
    });
  });

  test.each([
    ['no header', {}],
    ['another scheme', { authorization: 'Basic eDp5' }],
    ['an unknown key', { authorization: 'Bearer pl_unknown' }],
  ])('with %s is 401 as problem+json', async (_name, headers) => {
    const response = await me(headers);
    expect(response.status).toBe(401);
    expect(response.headers.get('www-authenticate')).toBe('Bearer');
    expect(response.headers.get('content-type')).toContain('application/problem+json');
    expect(await response.json()).toEqual({
      type: 'urn:partyline:error:unauthorized',
      title: 'Unauthorized',
      status: 401,
      detail: expect.any(String),
      code: 'unauthorized',
      request_id: expect.any(String),
    });
  });

  test.each([
    ['/nothing', 404, 'not_found'],
    ['/ws', 426, 'upgrade_required'],
  ])('GET %s is %i', async (path, status, code) => {
    const response = await fetch(gateway.url + path);
    expect(response.status).toBe(status);
    expect(await response.json()).toMatchObject({ code });
  });
});
