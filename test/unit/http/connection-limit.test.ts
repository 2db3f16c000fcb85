import { once } from 'node:events';
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ConnectionLimit } from '../../../src/http/connection-limit.ts';
import { UnauthenticatedConnections } from '../../../src/http/unauthenticated-connections.ts';
import { eventually, silentLog } from '../../support/gateway.ts';

describe('ConnectionLimit', () => {
  const server = createServer();
  const unauthenticated = new UnauthenticatedConnections(1000);
  const limit = new ConnectionLimit(server, unauthenticated, silentLog);
  /** Accepted connections that are open, the oldest first. */
  const accepted: Socket[] = [];
  server.on('connection', (socket) => {
    accepted.push(socket);
    socket.once('close', () => accepted.splice(accepted.indexOf(socket), 1));
    unauthenticated.arrive(socket, '192.0.2.1');
  });
  let onArrived = () => {};
  for (const event of ['connection', 'drop']) server.on(event, () => onArrived());
  beforeEach(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
  });
  const clients: Socket[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) client.destroy();
    server.close();
    await once(server, 'close');
  });

  /** Connects, one after the other. */
  const dial = async (count: number) => {
    const { port } = server.address() as AddressInfo;
    for (let index = 0; index < count; index += 1) {
      const client = createConnection(port, '127.0.0.1').on('error', () => {});
      clients.push(client);
      await new Promise<void>((resolve) => (onArrived = resolve));
    }
  };
  const authenticate = (sockets: Socket[]) => {
    for (const socket of sockets) unauthenticated.forget(socket);
  };

  test('lets a connection in beyond it in place of the oldest that has not authenticated', async () => {
    limit.allow(20);
    await dial(20);
    const [first, second, third, ...others] = [...accepted];
    authenticate([first!]);
    await dial(2);
    await eventually('two have ended', () => accepted.length === 20);
    expect(accepted.slice(0, -2)).toEqual([first, ...others]);
    expect([second!.destroyed, third!.destroyed]).toEqual([true, true]);
  });

  test('lets eight in beyond it where all others have authenticated, and one more in place of the oldest of these', async () => {
    limit.allow(20);
    await dial(20);
    authenticate(accepted);
    await dial(8);
    expect(accepted).toHaveLength(28);
    const [oldest] = accepted.slice(20);
    await dial(1);
    await eventually('one has ended', () => oldest!.destroyed && accepted.length === 28);
    authenticate(accepted);
    await dial(2);
    expect(accepted).toHaveLength(29);
  });

  test('does not rise by the connections beyond it, and lets one in however few descriptors are left', async () => {
    const descriptors = 20;
    limit.allow(descriptors);
    await dial(20);
    authenticate(accepted);
    for (let second = 0; second < 5; second += 1) {
      limit.allow(descriptors - accepted.length);
      await dial(10);
      await eventually('no more than eight are left', () => accepted.length === 28);
    }
    // Rooms take most of the reserve.
    authenticate(accepted);
    limit.allow(descriptors - accepted.length - 30);
    await dial(10);
    await eventually('all but the last have ended', () => accepted.length === 29);
    expect(accepted.at(-1)!.destroyed).toBe(false);
  });
});
