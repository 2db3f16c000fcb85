import { EventEmitter } from 'node:events';
import type { Server, Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { shakeInSlices } from '../../../src/http/tls-handshakes.ts';
import { Slices } from '../../../src/slices.ts';

const turn = () => new Promise(setImmediate);

/** A server that notes the connections whose handshake it begins. */
function openServer() {
  const begun: Socket[] = [];
  const server = new EventEmitter();
  server.on('connection', (connection: Socket) => begun.push(connection));
  const onFault = (fault: unknown) => {
    throw fault;
  };
  shakeInSlices(server as Server, new Slices(onFault, () => 0));
  const arrive = (remoteAddress = '192.0.2.1') => {
    const connection = Object.assign(new PassThrough(), { remoteAddress });
    server.emit('connection', connection);
    return connection;
  };
  return { server, begun, arrive };
}

test('handshakes of a network begin sixteen in a turn of the event loop, those of another beside them', async () => {
  const { begun, arrive } = openServer();
  for (let n = 0; n < 40; n += 1) arrive();
  const other = arrive('198.51.100.1');
  expect(begun).toEqual([]);
  await turn();
  expect(begun).toHaveLength(17);
  expect(begun).toContain(other);
  await expect.poll(() => begun.length, { interval: 1 }).toBe(41);
});

test('a connection that is refused when it arrives, or breaks before its turn, begins no handshake', async () => {
  const { server, begun, arrive } = openServer();
  server.once('connection', (connection: Socket) => connection.destroy());
  arrive();
  arrive().destroy(new Error('reset'));
  const third = arrive();
  await turn();
  expect(begun).toEqual([third]);
});
