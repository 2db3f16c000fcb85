import { createSocket } from 'node:dgram';
import { once } from 'node:events';

/** Process that echoes each datagram, in place of the media worker in the floor (docs/benchmarks.md). */

const SOCKET_BUFFER_BYTES = 1 << 22;

const socket = createSocket({
  type: 'udp4',
  recvBufferSize: SOCKET_BUFFER_BYTES,
  sendBufferSize: SOCKET_BUFFER_BYTES,
});
socket.on('message', (datagram, { port, address }) => socket.send(datagram, port, address));
socket.bind(0, '127.0.0.1');
await once(socket, 'listening');
process.stdout.write(`ready ${JSON.stringify({ port: socket.address().port })}\n`);
