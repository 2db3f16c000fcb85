import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, onTestFinished, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { PATIENCE_MS } from '../../../../packages/canary/src/connection.ts';
import { roomAt } from '../../../../packages/canary/src/rooms.ts';
import { runRound } from '../../../../packages/canary/src/round.ts';

/** Rounds of the canary at a gateway that is the test's, and carries no sound. */

const NEVER = new AbortController().signal;
const MINUTE_MS = 60_000;

type Join = { peer: string; room: string };
type Answer = (peer: string, socket: WebSocket) => object | undefined;

const REFUSED = { type: 'error', code: 'forbidden', message: 'Not you.' };
const FLOODED = { type: 'error', code: 'audio_rate_exceeded', message: 'Too fast.' };

/** Opens a gateway that greets each peer. @param answer what it answers to a `join`, if anything */
async function openGateway(answer: Answer = () => REFUSED) {
  const joins: Join[] = [];
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => server.close());
  server.on('connection', (socket, { url }) => {
    const peer = new URL(url!, 'ws://gateway').searchParams.get('peer')!;
    socket.on('message', (data: Buffer, isSound: boolean) => {
      if (isSound) return;
      const { id, room } = JSON.parse(data.toString()) as { id: string; room: string };
      joins.push({ peer, room });
      const answered = answer(peer, socket);
      if (answered) socket.send(JSON.stringify({ ...answered, reply_to: id }));
    });
    socket.send(JSON.stringify({ type: 'welcome' }));
  });
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const target = { url: `http://127.0.0.1:${port}`, key: 'k' };
  return { target, joins, isLeft: () => server.clients.size === 0 };
}

afterEach(() => {
  vi.useRealTimers();
});

test('a canary has few rooms, which take turns, a minute each', () => {
  const rooms = [0, 0.9, 1, 8, 9].map((minute) => roomAt(minute * MINUTE_MS));
  const [first, , second] = rooms;
  expect(first).toMatch(/^canary-[0-9a-f]{12}-0$/);
  expect(second).not.toBe(first);
  expect(rooms).toEqual([first, first, second, first, second]);
});

test('each round is in the room of its time, with other peers', async () => {
  const { target, joins } = await openGateway();
  vi.useFakeTimers({ toFake: ['Date'], now: 0 });
  for (const minute of [0, 9]) {
    vi.setSystemTime(minute * MINUTE_MS);
    const before = joins.length;
    const { faults } = await runRound(target, NEVER);
    expect(faults).toHaveLength(4);
    const ofRound = new Set(joins.slice(before).map(({ room }) => room));
    expect([...ofRound]).toEqual([roomAt(minute * MINUTE_MS)]);
  }
  expect(new Set(joins.map(({ peer }) => peer)).size).toBe(joins.length);
});

test('a round that is stopped waits for no answer, and leaves', async () => {
  const { target, joins, isLeft } = await openGateway(() => undefined);
  const stop = new AbortController();
  const round = runRound(target, stop.signal);
  round.catch(() => {});
  await expect.poll(() => joins.length).toBe(4);
  const stoppedMs = performance.now();
  stop.abort();
  await expect(round).rejects.toThrow('This operation was aborted');
  expect(performance.now() - stoppedMs).toBeLessThan(PATIENCE_MS / 2);
  await expect.poll(isLeft).toBe(true);
});

test('a round tells once why a connection ended within it, and not that it has left itself', async () => {
  const { target } = await openGateway((peer, socket) => {
    if (!peer.includes('-websocket-')) return REFUSED;
    setTimeout(() => {
      if (peer.endsWith('-speaker')) socket.send(JSON.stringify(FLOODED));
      socket.close(peer.endsWith('-speaker') ? 4422 : 4403);
    }, 100);
    return { type: 'joined' };
  });
  const { faults } = await runRound(target, NEVER);
  expect(faults.toSorted()).toEqual([
    'webrtc listener: forbidden: Not you.',
    'webrtc speaker: forbidden: Not you.',
    'websocket listener: the connection was closed with 4403',
    'websocket speaker: audio_rate_exceeded: Too fast.',
  ]);
});
