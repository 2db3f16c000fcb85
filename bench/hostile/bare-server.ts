import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { LoopDelay } from '../loop-delay.ts';
import { BARE_JOINED } from './bare-joined.ts';

/**
 * `bare-server.ts [CERT KEY]`: a process with a bare WebSocket server in the gateway's place. It parses text, relays binary messages
 * within the room `talk`, and so shows what the attackers' load alone costs on this machine: the floor. Its parent sends `reset`
 * before the attack, and `report` after it; the answer is the 99th percentile of the event loop's delay, ms.
 */

const rooms = new Map<string, Set<WebSocket>>();
const [, , certFile, keyFile] = process.argv;
/** Answers at once each request that is no upgrade. */
const answer: RequestListener = (_, response) => response.end('bare');
const http =
  certFile && keyFile
    ? createTlsServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, answer)
    : createServer(answer);
const server = new WebSocketServer({ server: http, perMessageDeflate: false });
http.listen(0, '127.0.0.1');
await once(http, 'listening');

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

const { port } = http.address() as AddressInfo;
const scheme = certFile ? 'https' : 'http';
process.stdout.write(`ready ${JSON.stringify({ url: `${scheme}://127.0.0.1:${port}` })}\n`);
