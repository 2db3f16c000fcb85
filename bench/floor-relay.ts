import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { type WebSocket, WebSocketServer } from 'ws';
import { hearers, type Scenario } from './scenario.ts';

/**
 * Process that does only the socket work of a gateway whose rooms have browsers. Each binary frame goes to
 * the echo over the connected UDP socket of its room, and each datagram that comes back goes to the listeners
 * of its speaker. Arguments: the scenario, the port of the echo.
 */

/** Length of the head of a datagram, which holds the speaker: that of the RTP header of the gateway's datagrams. */
const HEAD_BYTES = 20;
/** Length of the head of a forwarded frame. */
const FORWARD_HEAD_BYTES = 4;
const SOCKET_BUFFER_BYTES = 1 << 20;

type Room = { udp: Socket; peers: (WebSocket | undefined)[] };

const scenario = JSON.parse(process.argv[2] ?? '') as Scenario;
const echoPort = Number(process.argv[3]);
const heardBy = hearers(scenario);
const frameStart = scenario.delivery === 'forward' ? HEAD_BYTES - FORWARD_HEAD_BYTES : HEAD_BYTES;
const sendOptions = { binary: true, compress: false };

async function openRoom(): Promise<Room> {
  const buffers = { recvBufferSize: SOCKET_BUFFER_BYTES, sendBufferSize: SOCKET_BUFFER_BYTES };
  const udp = createSocket({ type: 'udp4', ...buffers });
  const peers: Room['peers'] = [];
  udp.connect(echoPort, '127.0.0.1');
  await once(udp, 'connect');
  udp.on('message', (datagram) => {
    const frame = datagram.subarray(frameStart);
    for (const peer of heardBy[datagram.readUInt32BE(8)]!) peers[peer]?.send(frame, sendOptions);
  });
  return { udp, peers };
}

const rooms = await Promise.all(Array.from({ length: scenario.rooms }, openRoom));
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
await once(server, 'listening');

server.on('connection', (socket, request) => {
  const { searchParams } = new URL(request.url ?? '', 'ws://localhost');
  const { udp, peers } = rooms[Number(searchParams.get('room'))]!;
  const peer = Number(searchParams.get('peer'));
  peers[peer] = socket;
  socket.on('close', () => (peers[peer] = undefined));
  socket.on('message', (frame: Buffer) => {
    const datagram = Buffer.allocUnsafe(HEAD_BYTES + frame.length);
    datagram.writeUInt32BE(peer, 8);
    datagram.set(frame, HEAD_BYTES);
    udp.send(datagram);
  });
  socket.send(JSON.stringify({ type: 'joined' }));
});

const { port } = server.address() as AddressInfo;
process.stdout.write(`ready ${JSON.stringify({ url: `ws://127.0.0.1:${port}` })}\n`);
