import type { IncomingMessage, Server } from 'node:http';
import type { Duplex } from 'node:stream';
import type { Slices } from '../slices.ts';

/** Listener for errors between Node's own listener and that of ws. It destroys the connection. */
const ignore = () => {};

type Upgrade = (request: IncomingMessage, connection: Duplex, head: Buffer) => void;

/**
 * Has upgrades handled in slices, in the order in which they came: those of 500 clients that come back at once would take
 * the event loop for a tenth of a second.
 * @param server server whose last `upgrade` listener handles upgrades
 */
export function upgradeInSlices(server: Pick<Server, 'listeners' | 'off' | 'on'>, slices: Slices) {
  const handle = server.listeners('upgrade').at(-1) as Upgrade;
  server.off('upgrade', handle);
  server.on('upgrade', (request: IncomingMessage, connection: Duplex, head: Buffer) => {
    connection.on('error', ignore);
    slices.add(server, () => {
      connection.off('error', ignore);
      if (!connection.destroyed) handle.call(server, request, connection, head);
    });
  });
}
