import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { FORMATS } from '../support/corpus.ts';
import { TestClient } from '../support/client.ts';
import { eventually, openTestGateway } from '../support/gateway.ts';
import { clientFrame, upgradeRequest } from '../support/raw-client.ts';
import { opusTone, play } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

// One test sends a thousand messages at once, which is more than a client may by default.
const inUse = useGateway({ MESSAGES_PER_SECOND: '1000' });
const { connect, enter, keep } = inUse;

describe('bad input', () => {
  test.each([
    ['no room', { room: undefined }, 4400, 'bad_request'],
    ['no peer', { peer: undefined }, 4400, 'bad_request'],
    ['an empty peer', { peer: '' }, 4400, 'bad_request'],
    ['a reserved peer', { peer: '__x' }, 4400, 'bad_request'],
    ['a peer of two dots', { peer: '..' }, 4400, 'bad_request'],
    ['an empty room', { room: '' }, 4400, 'bad_request'],
    ['a peer that is not UTF-8', { peer: 'M\u{fffd}ller' }, 4400, 'bad_request'],
    ['a peer of 129 characters', { peer: 'x'.repeat(129) }, 4400, 'bad_request'],
    ['a delivery that is not known', { delivery: 'pigeon' }, 4400, 'bad_request'],
    ['stats that are neither wanted nor not', { stats: 'maybe' }, 4400, 'bad_request'],
    ['no key', { api_key: undefined }, 4401, 'unauthorized'],
    ['an unknown key', { api_key: 'pl_unknown' }, 4401, 'unauthorized'],
    ['an audio that is not known', { audio: 'amr' }, 4415, 'unsupported_audio'],
    [
      'a rate that is not known',
      { audio: 'pcm_s16le;rate=7999;channels=1' },
      4415,
      'unsupported_audio',
    ],
  ])('a connection with %s is told why, and closed', async (_name, wrong, closeCode, code) => {
    const query = { room: '__lobby__', peer: 'alice', api_key: inUse.gateway.apiKey, ...wrong };
    const client = await TestClient.connect(inUse.gateway.url, query);
    expect(await client.closed).toBe(closeCode);
    expect(client.messages).toEqual([
      { type: 'error', code, message: expect.any(String), retryable: false },
    ]);
  });

  test('a connection with a parameter given twice is told which, and closed', async () => {
    const address = inUse.gateway.url.replace('http', 'ws');
    const query = `room=a&peer=x&peer=y&api_key=${inUse.gateway.apiKey}`;
    const socket = new WebSocket(`${address}/ws?${query}`);
    const message = once(socket, 'message') as Promise<[Buffer]>;
    const closed = once(socket, 'close') as Promise<[number]>;
    expect(JSON.parse((await message)[0].toString())).toMatchObject({
      code: 'bad_request',
      message: expect.stringContaining('"peer"') as string,
    });
    expect((await closed)[0]).toBe(4400);
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
    ['a volume of nobody', { type: 'configure', volume: { '': 1 }, id: 'x' }],
    ['a volume of a long name', { type: 'configure', volume: { ['x'.repeat(513)]: 1 }, id: 'x' }],
    ['a volume of a line break', { type: 'configure', volume: { 'a\nb': 1 }, id: 'x' }],
    ['a volume of 9', { type: 'configure', volume: { 'a\u2028b': 9 }, id: 'x' }],
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

  test.each([
    ['reserved', '__x'],
    ['over-long', 'x'.repeat(129)],
    ['invisible', '\u200b'],
    ['with a control character', 'a\u0000'],
    ['of dots', '..'],
    ['not UTF-8', 'M\u{fffd}ller'],
  ])(
    'a room in the query that is %s: told as to join, and the client is in the lobby',
    async (_name, room) => {
      const client = await connect({ room });
      const told = await client.next('error');
      expect(told).toMatchObject({ code: 'bad_message', retryable: false });
      expect(client.messages.map(({ type }) => type)).toEqual(['welcome', 'error']);
      expect(await client.next('welcome')).toMatchObject({ room: '__lobby__' });
      expect(await client.ask({ type: 'join', room }, 'error')).toMatchObject(told);
      expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ room: 'a' });
    },
  );

  test('a query that says more than is known is taken', async () => {
    const client = await connect({ room: 'a', version: '7', audio_in: 'mp3' });
    expect(await client.next('joined')).toMatchObject({ room: 'a' });
  });

  test('an audio that is not known counts as a bad message in configure, and all that are known are told', async () => {
    const refused = await TestClient.connect(inUse.gateway.url, {
      room: '__lobby__',
      peer: 'bob',
      api_key: inUse.gateway.apiKey,
      audio: 'vinyl',
    });
    const { code, message } = await refused.next('error');
    for (const { codec } of FORMATS) expect(message).toContain(codec);
    for (const name of ['auto', 'ogg_opus', 'webm_opus']) expect(message).toContain(name);
    const client = await connect();
    for (let i = 0; i < 19; i += 1) {
      const error = await client.ask({ type: 'configure', audio: 'vinyl' }, 'error');
      expect(error).toMatchObject({ code, message });
    }
    client.send({ type: 'configure', audio: 'vinyl' });
    expect(await client.closed).toBe(4400);
  });

  test('a bad message is answered behind those before it', async () => {
    const client = await connect();
    await client.next('welcome');
    client.sendTogether([{ type: 'join', room: 'a' }, { type: 'dance' }, { type: 'leave' }]);
    await client.next('left');
    const told = client.messages.map(({ type }) => type);
    expect(told).toEqual(['welcome', 'joined', 'error', 'left']);
  });

  test.each([
    ['x'.repeat(128), 'x'.repeat(128)],
    ['x'.repeat(60_000), 'x'.repeat(128)],
    [`${'😀'.repeat(128)}!`, '😀'.repeat(128)],
    [`x${'😀'.repeat(200)}`, `x${'😀'.repeat(127)}`],
  ])('an id is echoed up to its 128th character', async (id, echoed) => {
    const client = await connect();
    expect((await client.ask({ type: 'leave', id }, 'error')).reply_to).toBe(echoed);
    expect((await client.ask({ type: 'dance', id }, 'error')).reply_to).toBe(echoed);
    expect((await client.ask({ id }, 'error')).reply_to).toBe(echoed);
    expect((await client.ask({ type: 'join', room: 'a', id }, 'joined')).reply_to).toBe(echoed);
  });

  test('the 20th bad message in 10 s is the last', async () => {
    const client = await connect();
    for (let i = 0; i < 20; i += 1) client.send('{');
    expect(await client.closed).toBe(4400);
    const errors = client.messages.filter(({ type }) => type === 'error');
    expect(errors).toHaveLength(20);
  });

  test('the error of the last of too many bad messages is the answer to it', async () => {
    const client = await connect();
    for (let id = 1; id <= 20; id += 1) client.send({ type: 'dance', id });
    expect(await client.closed).toBe(4400);
    const answered = client.messages.flatMap(({ type, reply_to: id }) =>
      type === 'error' ? [id] : [],
    );
    expect(answered).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  });

  test('binary frames in the lobby, and empty ones in a room, change nothing', async () => {
    const client = await connect();
    for (let i = 0; i < 50; i += 1) client.sendAudio(Buffer.from([1, 2, 3]));
    expect(await client.ask({ type: 'join', room: 'a' }, 'joined')).toMatchObject({ peers: [] });
    client.sendAudio(Buffer.alloc(0));
    expect(await client.ask({ type: 'leave' }, 'left')).toMatchObject({ room: 'a' });
    expect(client.messages.filter(({ type }) => type === 'error')).toEqual([]);
  });

  test('a thousand messages at once: each is answered, in turn', async () => {
    const client = await connect();
    for (let i = 0; i < 500; i += 1) {
      client.send({ type: 'join', room: `room ${i}`, id: `join ${i}` });
      client.send({ type: 'leave', id: i });
    }
    const answers = () => client.messages.filter((message) => message.reply_to !== undefined);
    await client.until('all answers', () => answers().length === 1000 || undefined);
    const expected = Array.from({ length: 500 }, (_, i) => [`join ${i}`, i]).flat();
    expect(answers().map((message) => message.reply_to)).toEqual(expected);
    expect(answers().every(({ type }) => type === 'joined' || type === 'left')).toBe(true);
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

  test('a text of more than 64 KiB is refused for its length, before it is parsed', async () => {
    const client = await connect({ room: 'a' });
    await client.next('joined');
    client.send('['.repeat(65_537));
    expect(await client.closed).toBe(1009);
    const errors = client.messages.filter(({ type }) => type === 'error');
    expect(errors).toEqual([expect.objectContaining({ code: 'message_too_big' })]);
  });

  test.each(['mix', 'forward'])(
    'an Opus packet that is padded to 64 KiB is heard without its padding: delivery=%s',
    async (delivery) => {
      const speaker = await connect({ room: 'a', peer: 'speaker', audio: 'opus' });
      await speaker.next('joined');
      const listener = await connect({ room: 'a', peer: 'listener', audio: 'opus', delivery });
      await listener.next('joined');
      const tone = await opusTone(700, 0.4, 400);
      const padded = padOpusPacket(tone[10]!, 65_536);
      await play(speaker, [...tone.slice(0, 10), padded, ...tone.slice(11)]);
      await eventually('all is heard', () => listener.frames.length === tone.length);
      // One frame, as before, with its number.
      const bare = Buffer.concat([Buffer.of(padded[0]!, 1), tone[10]!.subarray(1)]);
      expect(listener.frames[10]!.subarray(delivery === 'mix' ? 0 : 4)).toEqual(bare);
    },
  );

  test('a message of two MiB closes the socket, and nothing else; no place is kept for the client', async () => {
    const other = await connect({ room: 'a', peer: 'other' });
    await other.next('joined');
    const client = await connect({ room: 'a', peer: 'client' });
    await client.next('joined');
    client.sendAudio(Buffer.alloc(2 << 20));
    expect(await client.closed).toBe(1009);
    expect(await other.next('peer_left')).toMatchObject({
      peer: 'client',
      reason: 'message_too_big',
    });
  });

  test.each([
    ['of more than 128 KiB', 1009, 3, 60_000],
    ['in more than 1024 fragments', 1008, 1100, 1],
  ])('a message %s that has no end yet: %i', async (_name, closeCode, fragments, bytes) => {
    const client = await connect();
    await client.next('welcome');
    for (let i = 0; i < fragments; i += 1) client.sendFragment(Buffer.alloc(bytes));
    expect(await client.closed).toBe(closeCode);
  });

  test('bytes that are not Opus are refused', async () => {
    const client = await connect({ room: 'a', audio: 'opus' });
    await client.next('joined');
    for (let i = 0; i < 10; i += 1) client.sendAudio(Buffer.from([0xff, 0x00, 0x01]));
    expect(await client.closed).toBe(4415);
    expect(await client.next('error')).toMatchObject({ code: 'unsupported_audio' });
  });

  test('a client that answers no ping is closed with 4408', async () => {
    const sessions = { silentAfterMs: 1500, heartbeatEveryMs: 400, beatEveryMs: 100 };
    const { url, apiKey } = keep(await openTestGateway({}, { sessions }));
    const query = { room: 'a', api_key: apiKey };
    const bob = await TestClient.connect(url, { ...query, peer: 'bob' });
    const deaf = await TestClient.connect(url, { ...query, peer: 'deaf' }, { autoPong: false });
    expect(await deaf.closed).toBe(4408);
    expect(await bob.next('peer_left')).toMatchObject({
      peer: 'deaf',
      reason: 'heartbeat_timeout',
    });
  });

  test('a client that answers no ping while it sends a message in fragments is not closed', async () => {
    const sessions = { silentAfterMs: 1500, heartbeatEveryMs: 400, beatEveryMs: 100 };
    const { url, apiKey } = keep(await openTestGateway({}, { sessions }));
    const query = { room: 'a', api_key: apiKey };
    const client = await TestClient.connect(url, { ...query, peer: 'a' }, { autoPong: false });
    await client.next('joined');
    const talking = setInterval(() => client.sendFragment(Buffer.of(0)), 50);
    const closeCode = await Promise.race([client.closed, sleep(1.5 * sessions.silentAfterMs)]);
    expect(closeCode).toBeUndefined();
    clearInterval(talking);
    expect(await client.closed).toBe(4408);
  });
});

/** Returns a packet of one frame with padding behind it (RFC 6716 §3.2.5), `bytes` long. */
function padOpusPacket(packet: Buffer, bytes: number): Buffer {
  const frame = packet.subarray(1);
  // Each 255 stands for itself and 254 bytes of padding, the last byte for as many as it says.
  const spare = bytes - 2 - frame.length - 1;
  const lengths = [...Array<number>(Math.floor(spare / 255)).fill(255), spare % 255];
  const head = [packet[0]! | 3, 0x40 | 1, ...lengths];
  return Buffer.concat([Buffer.from(head), frame], bytes);
}

test('volumes of more than 1000 peers in two messages: refused, and those before stay', async () => {
  const alice = await enter('alice');
  const volumes = (name: string, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name} ${i}`, 0.5]));
  await alice.ask({ type: 'configure', volume: volumes('a', 600) }, 'configured');
  const refused = await alice.ask({ type: 'configure', volume: volumes('b', 600) }, 'error');
  expect(refused).toMatchObject({ code: 'bad_message' });
  const { volume } = await alice.ask({ type: 'configure', mute: true }, 'configured');
  expect(volume).toEqual(volumes('a', 600));
});

test.each([
  [1000, 'configured'],
  [3000, 1008],
])('a message in %i TLS records of a byte each: %s', async (records, outcome) => {
  const fixture = (name: string) => join(import.meta.dirname, '../fixtures', name);
  const [TLS_CERT, TLS_KEY] = [fixture('tls-cert.pem'), fixture('tls-key.pem')];
  const { url, apiKey } = keep(await openTestGateway({ TLS_CERT, TLS_KEY }));
  const { port, hostname: host } = new URL(url);
  const socket = connectTls({ port: Number(port), host, ca: readFileSync(TLS_CERT) });
  socket.on('error', () => {}).setNoDelay(true);
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => (received = Buffer.concat([received, chunk])));
  socket.write(upgradeRequest(new URL(`/ws?room=__lobby__&peer=a&api_key=${apiKey}`, url)));
  await eventually('the session has begun', () => received.includes('"welcome"'));
  const text = JSON.stringify({ type: 'configure', mute: true }).padEnd(records - 8);
  // Node encrypts what is written while a write is under way together.
  for (const byte of clientFrame(text)) {
    await new Promise((resolve) => socket.write(Buffer.of(byte), resolve));
  }
  const closeFrame = Buffer.from([0x88, 2, 1008 >> 8, 1008 & 0xff]);
  const sought = outcome === 1008 ? closeFrame : `"${outcome}"`;
  await eventually('it is answered', () => received.includes(sought));
  expect(received.includes('"configured"')).toBe(outcome === 'configured');
  socket.destroy();
});
