import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Ports below those that the kernel hands out, so that none of them is given to a connection before a test uses it. Each test file
 * begins elsewhere.
 */
const FIRST_PORT = 10_000;
const PORTS = 8000;
const STEP = 400;
let next = (Number(process.env['VITEST_POOL_ID'] ?? 0) * STEP + process.pid) % PORTS;

/** TCP ports that were free a moment ago, found all at once, so that none is found twice. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = new Map<number, Server>();
  while (servers.size < count) {
    const port = FIRST_PORT + next;
    next = (next + 1) % PORTS;
    const server = createServer();
    if (await canListen(server, port)) servers.set(port, server);
  }
  for (const server of servers.values()) server.close();
  return [...servers.keys()];
}

/** One of those. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

async function canListen(server: Server, port: number): Promise<boolean> {
  try {
    // On all addresses, because some servers of tests listen on them.
    await once(server.listen(port), 'listening');
    return true;
  } catch {
    // Another has it.
    return false;
  }
}
