import { createSocket } from 'node:dgram';
import { once } from 'node:events';

/** UDP port that receives packets and never reads them, so that only the sender is measured. */
const socket = createSocket('udp4');
socket.bind(0, '127.0.0.1');
await once(socket, 'listening');
process.stdout.write(`ready ${JSON.stringify({ port: socket.address().port })}\n`);
// Blocks the event loop after the line has gone out; a signal still ends the process.
setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 100);
