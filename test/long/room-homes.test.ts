import { readFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { clientFrame, upgradeRequest } from '../support/raw-client.ts';
import { keepPlaying, lastSecondOf, opusTone, peakHz } from '../support/sound.ts';

/** Several gateways on one port: a client comes to the one in which its room is, whichever took its connection. */

const PROCESSES = 2;
const LOBBY = '__lobby__';

const started: GatewayProcess[] = [];
afterEach(async () => {
  for (const node of started.splice(0)) await node.dispose();
});

async function start(environment?: Record<string, string>) {
  const processes = { aliveEveryMs: 200, checkEveryMs: 300, firstRestartMs: 300 };
  const node = await GatewayProcess.start({
    PROCESSES: String(PROCESSES),
    RESUME_MS: '2000',
    // Processes and files are counted: a usage worker would come a moment later.
    USAGE_WORKERS: '0',
    ...timingsOf({ processes }),
    ...environment,
  });
  started.push(node);
  const { url, api_key: apiKey } = await node.ready();
  const currentCcu = async () => {
    const headers = { authorization: `Bearer ${apiKey}` };
    const response = await fetch(`${url}/api/me`, { headers });
    const { summary } = (await response.json()) as { summary: { current_ccu: number } };
    return summary.current_ccu;
  };
  /** Number of clients that one process has handed to another. */
  const moved = () =>
    node.logged('session ended').filter(({ reason }) => reason === 'moved').length;
  return { node, url, apiKey, currentCcu, moved };
}

test('a join, in the query or in the lobby: peers of a room are in one process, and hold one place each', async () => {
  const peers = 40;
  const rooms = 10;
  const { node, url, apiKey, currentCcu, moved } = await start();
  const clients = await Promise.all(
    Array.from({ length: peers }, async (_, index) => {
      const room = `room ${index % rooms}`;
      const asked = index % 3 === 0 ? room : LOBBY;
      const query = { room: asked, peer: `peer ${index}`, api_key: apiKey };
      const client = await TestClient.connect(url, query);
      if (asked === LOBBY) client.send({ type: 'join', room, id: `join ${index}` });
      const joined = await client.next('joined');
      expect(joined).toMatchObject({ room });
      expect(joined.reply_to).toBe(asked === LOBBY ? `join ${index}` : undefined);
      return client;
    }),
  );
  await eventually('a line for each', () => node.logged('room joined').length === peers);
  const pidsOf = (room: number) =>
    new Set(
      node
        .logged('room joined')
        .filter((line) => line['room'] === `room ${room}`)
        .map(({ pid }) => pid),
    );
  const pids = Array.from({ length: rooms }, (_, room) => [...pidsOf(room)]);
  expect(pids.map((of) => of.length)).toEqual(Array(rooms).fill(1));
  expect(new Set(pids.flat()).size).toBe(PROCESSES);
  expect(moved()).toBeGreaterThan(0);
  for (const { messages } of clients) {
    expect(messages.filter(({ type }) => type === 'welcome')).toHaveLength(1);
    const known = () =>
      messages.flatMap((message) => {
        if (message.type === 'joined') return message.peers;
        return message.type === 'peer_joined' ? [message] : [];
      });
    await eventually('it knows the others', () => known().length === peers / rooms - 1);
  }
  expect(await currentCcu()).toBe(peers);
  for (const client of clients) await client.close();
  await eventually('all places are given back', async () => (await currentCcu()) === 0);
});

/** A client that has connected, and been greeted, down at its bytes. */
async function connectRaw(url: string, query: Record<string, string>) {
  const address = new URL(`/ws?${new URLSearchParams(query).toString()}`, url);
  const socket = connect(Number(address.port), address.hostname);
  socket.setNoDelay(true);
  socket.write(upgradeRequest(address));
  let heard = '';
  socket.on('data', (chunk: Buffer) => (heard += chunk.toString('latin1')));
  await eventually('welcome', () => heard.includes('"welcome"'));
  return { socket, heard: () => heard };
}

test('messages sent right behind a join, cut anywhere, arrive whole and in order', async () => {
  const { url, apiKey, moved } = await start();
  const clients = 96;
  const ids = ['0', '1', '2', '3', '4', '5'];
  const answers = await Promise.all(
    Array.from({ length: clients }, async (_, index) => {
      const query = { room: LOBBY, peer: `peer ${index}`, api_key: apiKey, audio: 'opus' };
      const { socket, heard } = await connectRaw(url, query);
      // Frames with heads of each length; between them what is answered one by one.
      const sound = [100, 1000].map((bytes) => clientFrame(Buffer.alloc(bytes, 0xfc)));
      const joinAs = (id: string) =>
        clientFrame(JSON.stringify({ type: 'join', room: `room ${index}`, id }));
      const sent = Buffer.concat(ids.flatMap((id) => [joinAs(id), ...sound]));
      // At least the first join, and then more or less of what comes after it, down to a part of a
      // head.
      const least = joinAs('0').length;
      const cut = least + Math.floor((index / clients) * (sent.length - least));
      socket.write(sent.subarray(0, cut));
      await sleep((index % 4) * 2);
      socket.write(sent.subarray(cut));
      const answered = () => [...heard().matchAll(/"reply_to":"(\d)"/g)].map(([, id]) => id);
      await eventually('all is answered', () => answered().length >= ids.length);
      expect(heard()).not.toContain('"error"');
      socket.destroy();
      return answered();
    }),
  );
  for (const answered of answers) expect(answered).toEqual(ids);
  // Each has a chance of one half.
  expect(moved()).toBeGreaterThan(clients / 4);
});

test('a client that begins with sound stays in its process, and is heard all the same', async () => {
  const { url, apiKey, node } = await start();
  const [packet] = await opusTone(1000, 0.5, 20);
  const rooms = 8;
  for (let index = 0; index < rooms; index += 1) {
    const room = `room ${index}`;
    const query = { api_key: apiKey, audio: 'opus' };
    const listener = await TestClient.connect(url, { ...query, room, peer: `listener ${index}` });
    await listener.next('joined');
    const speaker = await TestClient.connect(url, {
      ...query,
      room: LOBBY,
      peer: `speaker ${index}`,
    });
    await speaker.next('welcome');
    speaker.sendAudio(packet!);
    await speaker.ask({ type: 'join', room }, 'joined');
    await eventually('the speaker is heard', async () => {
      speaker.sendAudio(packet!);
      await sleep(20);
      return listener.frames.length > 0;
    });
  }
  const movedPeers = node.logged('session ended').map(({ peer }) => peer as string);
  expect(movedPeers.filter((peer) => peer.startsWith('speaker'))).toEqual([]);
});

test('clients that vanish on their way leave nothing behind', async () => {
  const { node, url, apiKey, currentCcu, moved } = await start();
  // This asking has a connection of its own, which is kept.
  await currentCcu();
  const openFiles = await node.countOpenFiles();
  const vanish = async (round: number, index: number) => {
    const query = { room: LOBBY, peer: `peer ${round} ${index}`, api_key: apiKey };
    const { socket } = await connectRaw(url, query);
    socket.write(clientFrame(JSON.stringify({ type: 'join', room: `room ${round} ${index}` })));
    // Before it is read, while it is on its way, or when it is there.
    await sleep((index % 6) / 2);
    socket.resetAndDestroy();
  };
  let round = 0;
  // A gateway that was late in a round has read few of its joins: a reset discards the others.
  await eventually('some had set out', async () => {
    round += 1;
    await Promise.all(Array.from({ length: 60 }, (_, index) => vanish(round, index)));
    return moved() > 10;
  });
  // Kept for RESUME_MS, for those that come back.
  await eventually('no place is held', async () => (await currentCcu()) === 0);
  await eventually('no file is open that was not', async () => {
    const open = await node.countOpenFiles();
    return open.every((count, index) => count <= openFiles[index]!);
  });
});

test('a join of whatever shape ends no process', async () => {
  const { node, url, apiKey, moved } = await start();
  const descendants = await node.descendantPids();
  // The deepest that 64 KiB hold, and less: more than a stack bears in one place or another.
  for (const [index, depth] of [500, 2000, 2500, 3500, 10_000, 32_000].entries()) {
    for (const room of ['a', 'b', 'c', 'd']) {
      const query = { room: LOBBY, peer: `${room} ${index}`, api_key: apiKey };
      const client = await TestClient.connect(url, query);
      const deep = `${'['.repeat(depth)}${']'.repeat(depth)}`;
      const deepJoin = `{"type":"join","room":"${room}","media":"webrtc","rtp_capabilities":{"codecs":[],"x":${deep}}}`;
      client.send(deepJoin);
      const isAnswered = () => client.messages.length > 1;
      await eventually('an answer', isAnswered);
      client.vanish();
    }
  }
  expect(moved()).toBeGreaterThan(0);
  expect(await node.descendantPids()).toEqual(descendants);
});

test('a process that hangs keeps nobody waiting, and nothing open', async () => {
  const { node, url, apiKey, currentCcu } = await start();
  await currentCcu();
  const [supervisorFiles = 0] = await node.countOpenFiles();
  const [hanging] = node.logged('media worker started');
  process.kill(hanging?.['pid'] as number, 'SIGSTOP');
  const ends = await Promise.all(
    Array.from({ length: 20 }, async (_, index) => {
      const query = { room: `room ${index}`, peer: `peer ${index}`, api_key: apiKey };
      // The kernel deals some to the one that hangs, which answers none.
      const client = await TestClient.connect(url, query).catch(() => undefined);
      if (!client) return 'cut';
      const joined = client.next('joined').then(
        () => 'joined',
        () => 'waiting',
      );
      return Promise.race([joined, client.closed.then(() => 'cut')]);
    }),
  );
  expect(ends).not.toContain('waiting');
  expect(ends).toContain('joined');
  expect(ends).toContain('cut');
  const isBack = () => node.logged('media worker started').length === PROCESSES + 1;
  await eventually('another is there', isBack);
  const openFiles = async () => (await node.countOpenFiles())[0]!;
  await eventually('the supervisor has let go', async () => (await openFiles()) <= supervisorFiles);
});

test('a client that resumes its session is where it was, whichever process takes the connection', async () => {
  // Its place is kept for as long as a slow machine needs to connect.
  const { url, apiKey } = await start({ RESUME_MS: '60000' });
  const query = { room: 'a', api_key: apiKey };
  const bob = await TestClient.connect(url, { ...query, peer: 'bob' });
  await bob.next('joined');
  let alice = await TestClient.connect(url, { ...query, peer: 'alice' });
  await alice.next('joined');
  const { session_id, resume_token } = await alice.next('welcome');
  for (let times = 0; times < 8; times += 1) {
    alice.vanish();
    alice = await TestClient.connect(url, { ...query, peer: 'alice', session_id, resume_token });
    expect(await alice.next('joined')).toMatchObject({ room: 'a', peers: [{ peer: 'bob' }] });
    expect(await alice.next('welcome')).toMatchObject({ session_id });
  }
  expect(bob.messages.map(({ type }) => type)).toEqual(['welcome', 'joined', 'peer_joined']);
});

test('TLS_CERT, TLS_KEY: whoever has the keys of a connection keeps it, and a room spans processes', async () => {
  const fixture = (name: string) => join(import.meta.dirname, '../fixtures', name);
  const { url, apiKey, moved } = await start({
    TLS_CERT: fixture('tls-cert.pem'),
    TLS_KEY: fixture('tls-key.pem'),
  });
  expect(url).toMatch(/^https:/);
  const ca = await readFile(fixture('tls-cert.pem'));
  const clients = await Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      const query = { room: 'a', peer: `peer ${index}`, api_key: apiKey, audio: 'opus' };
      const client = await TestClient.connect(url, query, { ca });
      await client.next('joined');
      return client;
    }),
  );
  const [speaker, ...others] = clients;
  const speech = keepPlaying(speaker!, await opusTone(1000, 0.5, 500));
  await eventually('all hear', () => others.every(({ frames }) => frames.length > 50));
  await speech.close();
  for (const other of others) expect(peakHz(await lastSecondOf(other))).toBeCloseTo(1000, -1);
  expect(moved()).toBe(0);
});
