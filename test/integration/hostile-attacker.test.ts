import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { AttackReport } from '../../bench/hostile/attack.ts';
import { ATTACKS } from '../../bench/hostile/attacks.ts';

/** The attacking process of the hostile bench, against a server that closes as the gateway does. */

const ATTACKER = fileURLToPath(new URL('../../bench/hostile/attacker.ts', import.meta.url));
const SECONDS = 2;
const CLOSE_AFTER_MS = 200;
/** Longer than the attack, as the gateway's may be: an attacker that waited to be cut off would never come back. */
const CLOSE_TIMEOUT_MS = 3000;

/** Greets a client, stops reading it, closes it, and cuts its connection if it does not answer. */
function closeUnread(socket: WebSocket): void {
  socket.send('{"type":"joined"}');
  socket.pause();
  setTimeout(() => socket.close(4429), CLOSE_AFTER_MS);
}

test('a client that floods and is closed with 4429 notes it, and comes back', async () => {
  await using opened = new AsyncDisposableStack();
  // `closeTimeout` is missing in the types of ws.
  const options = { port: 0, host: '127.0.0.1', closeTimeout: CLOSE_TIMEOUT_MS };
  const server = new WebSocketServer(options);
  opened.defer(() => {
    for (const socket of server.clients) socket.terminate();
    server.close();
  });
  server.on('connection', closeUnread);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const flood = ATTACKS.findIndex(({ name }) => name === 'PCM without pause');
  const words = [`http://127.0.0.1:${port}`, 'key', flood, 1, SECONDS].map(String);
  const attacker = fork(ATTACKER, words);
  const exited = once(attacker, 'exit');
  opened.defer(async () => {
    attacker.kill('SIGKILL');
    await exited;
  });
  const [report] = (await once(attacker, 'message')) as [AttackReport];
  expect(report.connections).toBeGreaterThanOrEqual(3);
  // The last connection may be open when the time is over.
  expect(report.told['4429']).toBeGreaterThanOrEqual(report.connections - 1);
  expect(Object.keys(report.told)).toEqual(['4429']);
});
