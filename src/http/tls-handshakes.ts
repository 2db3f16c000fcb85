import type { Server, Socket } from 'node:net';
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
