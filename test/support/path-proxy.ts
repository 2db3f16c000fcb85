import { once } from 'node:events';
import { createServer, type IncomingMessage, request as ask, type Server } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';

/** A web server that serves a gateway below a path, and has nothing else: other addresses get 404. */
export class PathProxy {
  /** Address of the page, which ends with the path. */
  readonly url: string;
  /** Paths of the requests that were refused. */
  readonly refused: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, target: URL, path: string) {
    this.#server = server;
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`;
    const innerPath = ({ url = '' }: IncomingMessage) => {
      if (url.startsWith(path)) return `/${url.slice(path.length)}`;
      this.refused.push(url);
      return undefined;
    };
    server.on('connection', (socket: Socket) => this.#sockets.add(socket));
    server.on('request', (request, response) => {
      const inner = innerPath(request);
      if (inner === undefined) return void response.writeHead(404).end('Not found');
      const { method, headers } = request;
      const asked = ask(new URL(inner, target), { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      asked.on('error', () => response.destroy());
      request.pipe(asked);
    });
    server.on('upgrade', (request: IncomingMessage, client: Socket, head: Buffer) => {
      const inner = innerPath(request);
      if (inner === undefined) return void client.end('HTTP/1.1 404 Not Found\r\n\r\n');
      const gateway = connect(Number(target.port), target.hostname);
      this.#sockets.add(gateway);
      const lines = request.rawHeaders.map((text, i) =>
        i % 2 === 0 ? `${text}: ` : `${text}\r\n`,
      );
      gateway.write(`GET ${inner} HTTP/1.1\r\n${lines.join('')}\r\n`);
      gateway.write(head);
      for (const [from, to] of [
        [client, gateway],
        [gateway, client],
      ] as const) {
        from.pipe(to);
        from.on('error', () => to.destroy());
        from.on('close', () => to.destroy());
      }
    });
  }

  /** @param path begins and ends with a slash */
  static async open(target: string, path: string): Promise<PathProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new PathProxy(server, new URL(target), path);
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
