import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { isIPv6 } from 'node:net';
import { resourceOf } from '../resources.ts';

/**
 * Returns whether sockets can be bound to an address of this machine. A listed address may not be usable: an
 * IPv6 address is not until duplicate address detection is done, nor if there is a duplicate.
 * @throws {Error} if a resource has run out, which says nothing about the address
 */
export async function isBindable(ip: string): Promise<boolean> {
  const socket = createSocket({ type: isIPv6(ip) ? 'udp6' : 'udp4', ipv6Only: isIPv6(ip) });
  try {
    socket.bind(0, ip);
    await once(socket, 'listening');
    return true;
  } catch (fault) {
    if (resourceOf(fault)) throw fault;
    return false;
  } finally {
    socket.close();
  }
}
