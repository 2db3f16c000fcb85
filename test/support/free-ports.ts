import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/** Largest number of test files that run side by side. */
const FILES_AT_ONCE = 6;
/** Number of this test file among those that run side by side, for a range of ports of its own. */
export const FILE_NUMBER = Number(process.env['VITEST_POOL_ID'] ?? 0) % FILES_AT_ONCE;

/**
 * Ports below those that the kernel hands out, so that none of them is given to a connection before a test uses it. A file that comes
 * after another begins elsewhere in the same range.
 */
const PORTS = 1300;
const FIRST_PORT = 10_000 + FILE_NUMBER * PORTS;
let next = process.pid % PORTS;

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
