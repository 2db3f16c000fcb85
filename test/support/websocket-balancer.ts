import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import { WebSocket, WebSocketServer } from 'ws';

/** The certificate that {@link WebSocketBalancer} shows; clients must trust it. */
export const CERTIFICATE_FILE = new URL('../fixtures/tls-cert.pem', import.meta.url).pathname;
const KEY_FILE = new URL('../fixtures/tls-key.pem', import.meta.url).pathname;

/** A load balancer for WebSockets that ends TLS, and leads one connection after the other to one gateway after the other. */
export class WebSocketBalancer {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true });

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.url = `https://127.0.0.1:${port}`;
  }

  /** @param swallows whether it loses the sound of a peer, by its name */
  static async open(
    targets: string[],
    swallows: (peer: string) => boolean = () => false,
  ): Promise<WebSocketBalancer> {
    const [cert, key] = [CERTIFICATE_FILE, KEY_FILE].map((file) => readFileSync(file));
    const server = createServer({ cert, key }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as { port: number };
    const balancer = new WebSocketBalancer(server, port);
    let taken = 0;
    server.on('upgrade', (request, socket, head) => {
      const address = new URL(request.url ?? '', targets[taken % targets.length]);
      taken += 1;
      address.protocol = 'ws:';
      const { authorization = '' } = request.headers;
      const isSwallowed = swallows(address.searchParams.get('peer') ?? '');
      balancer.#sockets.handleUpgrade(request, socket, head, (client) => {
        const gateway = new WebSocket(address, { headers: { authorization } });
        connect(client, gateway, isSwallowed);
      });
    });
    return balancer;
  }

  async close(): Promise<void> {
    for (const client of this.#sockets.clients) client.terminate();
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }
}

function connect(client: WebSocket, gateway: WebSocket, isSwallowed: boolean): void {
  const waiting: [Buffer, boolean][] = [];
  const pass = (data: Buffer, isBinary: boolean) => {
    if (isBinary && isSwallowed) return;
    if (gateway.readyState === WebSocket.OPEN) gateway.send(data, { binary: isBinary });
    else waiting.push([data, isBinary]);
  };
  client.on('message', pass);
  gateway.on('open', () => waiting.splice(0).forEach((message) => pass(...message)));
  gateway.on('message', (data: Buffer, isBinary) => client.send(data, { binary: isBinary }));
  for (const [from, to] of [
    [client, gateway],
    [gateway, client],
  ] as const) {
    from.on('close', () => to.close());
    // The other end is closed then, by 'close'.
    from.on('error', () => {});
  }
}
