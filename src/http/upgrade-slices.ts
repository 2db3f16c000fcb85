import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { networkOf } from '../network-of.ts';
import type { Slices } from '../slices.ts';

/** Listener for errors between Node's own listener and that of ws. It destroys the connection. */
const ignore = () => {};

type Upgrade = (request: IncomingMessage, connection: Duplex, head: Buffer) => void;

/** Answer to an upgrade that comes while the server closes. */
const CLOSING =
  'HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n';

/**
 * Handles upgrades in slices, in turn between the networks of clients: the upgrades of 500 clients that come back at once would block
 * the event loop for a tenth of a second.
 * @param server server whose last `upgrade` listener handles upgrades
 * @param isClosing returns true once the server closes: upgrades are refused from then on, because Fastify answers them without ending
 * their connections, for which the server would wait
 */
export function upgradeInSlices(
  server: Pick<Server, 'listeners' | 'off' | 'on'>,
  slices: Slices,
  isClosing: () => boolean,
) {
  const handle = server.listeners('upgrade').at(-1) as Upgrade;
  server.off('upgrade', handle);
  server.on('upgrade', (request: IncomingMessage, connection: Duplex, head: Buffer) => {
    connection.on('error', ignore);
    const { remoteAddress = '' } = connection as Socket;
    slices.add(networkOf(remoteAddress), () => {
      if (isClosing()) {
        connection.end(CLOSING, () => connection.destroy());
        return;
      }
      connection.off('error', ignore);
      if (!connection.destroyed) handle.call(server, request, connection, head);
    });
  });
}
