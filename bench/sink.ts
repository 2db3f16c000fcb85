import { createSocket } from 'node:dgram';
import { once } from 'node:events';

/** A UDP port that takes packets and never reads them, so that who sends them is all that is measured. */
const socket = createSocket('udp4');
socket.bind(0, '127.0.0.1');
await once(socket, 'listening');
process.stdout.write(`ready ${JSON.stringify({ port: socket.address().port })}\n`);
// Blocks the event loop, once the line has gone out; a signal ends it all the same.
setTimeout(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0), 100);
