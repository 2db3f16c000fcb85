import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';

/**
 * Returns whether sockets can be bound to an address of this machine. One that is listed may not be usable: IPv6 addresses are not until
 * the network has been asked for duplicates, nor if there is one.
 */
export async function isBindable(ip: string): Promise<boolean> {
  const socket = createSocket({ type: isIPv6(ip) ? 'udp6' : 'udp4', ipv6Only: isIPv6(ip) });
  try {
    socket.bind(0, ip);
    await once(socket, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    socket.close();
  }
}
