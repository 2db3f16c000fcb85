import type { Server, Socket } from 'node:net';
import { networkOf } from '../network-of.ts';
import type { Slices } from '../slices.ts';
import { connectionIdOf } from './unauthenticated-connections.ts';

/**
 * Keeps the connections of a TLS server whose handshake is not complete: HTTP does not know them yet, so that
 * `closeAllConnections` leaves them open, and the server would wait for them.
 * @returns a function that destroys them
 */
export function watchHandshakes(server: Server): () => void {
  const shaking = new Map<string, Socket>();
  server.on('connection', (connection: Socket) => {
    const id = connectionIdOf(connection);
    shaking.set(id, connection);
    connection.once('close', () => {
      if (shaking.get(id) === connection) shaking.delete(id);
    });
  });
  server.on('secureConnection', (connection: Socket) => shaking.delete(connectionIdOf(connection)));
  return () => {
    for (const connection of shaking.values()) connection.destroy();
  };
}

/** Listener for errors of a connection whose handshake has not begun: Node destroys it, but without a listener the process would end. */
const ignore = () => {};

const nextLoopTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

/**
 * Begins handshakes in slices, in turn between the networks of clients: otherwise the first messages of 1200 clients that connect at
 * once would block the event loop for 0.2 s.
 * @param server server whose first `connection` listener begins handshakes
 */
export function shakeInSlices(
  server: Pick<Server, 'listeners' | 'off' | 'on'>,
  slices: Slices,
): void {
  const begin = server.listeners('connection')[0] as (connection: Socket) => void;
  server.off('connection', begin);
  server.on('connection', (connection: Socket) => {
    connection.on('error', ignore);
    slices.add(networkOf(connection.remoteAddress ?? ''), async () => {
      connection.off('error', ignore);
      // Another listener has refused the connection, or the client has closed it.
      if (connection.destroyed) return;
      begin.call(server, connection);
      // The task ends once the client's first message, if it has come, has been handled: only a
      // limited number of one network's tasks are under way at once.
      await nextLoopTurn();
    });
  });
}
