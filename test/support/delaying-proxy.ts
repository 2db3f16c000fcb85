import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Transform } from 'node:stream';

/**
 * A way to a gateway, over TCP, on which every byte takes a while, each way: a network between continents.
 * @returns its URL, and what closes it with all its connections
 */
export async function openDelayingProxy(target: string, delayMs: number) {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const gateway = connect(Number(port), hostname);
    for (const [from, to] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      sockets.add(from);
      from.pipe(delay(delayMs)).pipe(to);
      from.on('error', () => to.destroy());
      from.on('close', () => sockets.delete(from));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

/** Passes everything on, in order, after `delayMs`. */
const delay = (delayMs: number) =>
  new Transform({
    transform(chunk, _encoding, taken) {
      setTimeout(() => this.push(chunk), delayMs);
      taken();
    },
    flush(ended) {
      setTimeout(ended, delayMs);
    },
  });
