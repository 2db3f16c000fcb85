import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import {
  Connection,
  PATIENCE_MS,
  ServerFault,
} from '../../../../packages/canary/src/connection.ts';

const WELCOME = JSON.stringify({ type: 'welcome' });
const fast = { type: 'error', code: 'audio_rate_exceeded', message: 'Too fast.' };

/** Opens a server that greets with a text, and a connection to it. */
async function connect(greeting: string, stopped = new AbortController().signal) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
  onTestFinished(() => server.close());
  const accepted = once(server, 'connection') as Promise<[WebSocket]>;
  void accepted.then(([socket]) => socket.send(greeting));
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const target = { url: `http://127.0.0.1:${port}`, key: 'key', room: 'a', stopped };
  const connection = await Connection.open(target, 'canary');
  onTestFinished(() => connection.close());
  return { connection, socket: (await accepted)[0] };
}

test('a connection tells errors that answer no request, and the close, with their codes', async () => {
  const { connection, socket } = await connect(WELCOME);
  expect(connection.isOpen).toBe(true);
  const codes: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  connection.onFault = (fault) => {
    if (fault instanceof ServerFault) codes.push(fault.code);
    if (codes.length === 2) resolve();
  };
  socket.send(JSON.stringify(fast));
  socket.close(4422);
  await promise;
  expect(codes).toEqual(['audio_rate_exceeded', '4422']);
  expect(connection.isOpen).toBe(false);
  await expect(connection.ask({ type: 'leave' }, 'joined')).rejects.toThrow('audio_rate_exceeded');
});

test('a connection that is refused says with which code', async () => {
  await expect(connect(JSON.stringify(fast))).rejects.toMatchObject({
    code: 'audio_rate_exceeded',
    message: 'audio_rate_exceeded: Too fast.',
  });
});

test('a server that sends no JSON is no gateway', async () => {
  await expect(connect('hello')).rejects.toThrow('the server is no gateway');
});

test('a connection tells its end once', async () => {
  const { signal } = new AbortController();
  const { connection, socket } = await connect(WELCOME, signal);
  const faults: string[] = [];
  connection.onFault = ({ message }) => faults.push(message);
  const forgets = vi.spyOn(signal, 'removeEventListener');
  socket.send('hello');
  // When its socket is closed.
  await expect.poll(() => forgets.mock.calls.length).toBe(1);
  expect(faults).toEqual(['the server is no gateway: it sent text that is not JSON']);
});

test('a connection is cut soon after its close if the gateway does not answer it', async () => {
  const { connection, socket } = await connect(WELCOME);
  socket.pause();
  const { promise: ended, resolve } = Promise.withResolvers<Error>();
  connection.onFault = resolve;
  const closedMs = performance.now();
  connection.close();
  expect(await ended).toMatchObject({ code: '1006' });
  expect(performance.now() - closedMs).toBeLessThan(PATIENCE_MS / 2);
  socket.terminate();
});
