import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { LoopDelay } from '../loop-delay.ts';
import { BARE_JOINED } from './bare-joined.ts';

/**
 * A process that does nothing but pass on: a bare WebSocket server in the gateway's place. It parses text, relays binary
 * messages within a room, and shows what the attackers' load alone costs on this machine: the floor. Its parent sends `reset`
 * before the attack, and `report` after it to be told the 99th percentile of the event loop's delay, ms.
 */

const rooms = new Map<string, Set<WebSocket>>();
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
await once(server, 'listening');

server.on('connection', (socket, request) => {
  const { searchParams } = new URL(request.url ?? '', 'ws://localhost');
  const room = searchParams.get('room') ?? '';
  const members = rooms.get(room) ?? new Set();
  rooms.set(room, members.add(socket));
  socket.on('close', () => members.delete(socket));
  // 'close' follows.
  socket.on('error', () => {});
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (!isBinary) return parse(data);
    if (room !== 'talk') return;
    for (const member of members) if (member !== socket) member.send(data, { binary: true });
  });
  socket.send(JSON.stringify(BARE_JOINED));
});

function parse(data: Buffer): void {
  try {
    JSON.parse(data.toString());
  } catch {
    // Some of the attacks send no JSON.
  }
}

const loopDelay = new LoopDelay();
process.on('message', (message) => {
  if (message === 'report') process.send?.(loopDelay.p99Ms);
  else loopDelay.start();
});

const { port } = server.address() as AddressInfo;
process.stdout.write(`ready ${JSON.stringify({ url: `http://127.0.0.1:${port}` })}\n`);
