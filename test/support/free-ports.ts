import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** TCP ports that were free a moment ago, found all at once, so that none is found twice. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'));
  await Promise.all(servers.map((server) => once(server, 'listening')));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  for (const server of servers) server.close();
  return ports;
}

/** One of those. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}
