import type { Server, Socket } from 'node:net';

/**
 * Keeps the connections of a TLS server whose handshake is not complete: HTTP does not know them yet, so that
 * `closeAllConnections` leaves them open, and the server would wait for them.
 * @returns a function that destroys them
 */
export function watchHandshakes(server: Server): () => void {
  const shaking = new Map<string, Socket>();
  server.on('connection', (connection: Socket) => {
    const id = idOf(connection);
    shaking.set(id, connection);
    connection.once('close', () => {
      if (shaking.get(id) === connection) shaking.delete(id);
    });
  });
  server.on('secureConnection', (connection: Socket) => shaking.delete(idOf(connection)));
  return () => {
    for (const connection of shaking.values()) connection.destroy();
  };
}

/** Addresses and port, which the TCP and the TLS socket of a connection share. */
const idOf = ({ remoteAddress, remotePort, localAddress }: Socket) =>
  `${remoteAddress} ${remotePort} ${localAddress}`;
