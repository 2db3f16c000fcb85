import { lookup } from 'node:dns/promises';

/**
 * Returns the one address at which a host is served, IPv4 before IPv6. Given the name `localhost`, Fastify would open a further
 * server for each other address, without any limit on its connections; systems differ in whether ::1 or 127.0.0.1 is the first.
 */
export async function listenAddressOf(host: string): Promise<string> {
  return (await lookup(host, { order: 'ipv4first' })).address;
}
