import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A way to a gateway, over TCP, that can be cut, opened again, and led to another: what a network or a load balancer does. */
export class TestProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Undefined while it is cut. */
  #target: URL | undefined;

  private constructor(server: Server, target: string) {
    this.#server = server;
    this.#target = new URL(target);
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
    this.url = `http://127.0.0.1:${address.port}`;
    server.on('connection', (client) => this.#lead(client));
  }

  static async open(target: string): Promise<TestProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new TestProxy(server, target);
  }

  /** Breaks all connections, without a word to either side, and lets nobody through. */
  cut(): void {
    this.#target = undefined;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Lets nothing more through, and leaves all connections as they are: a network that is gone, as TCP sees it at first. */
  hang(): void {
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  /** Leads new connections to a target; open ones stay where they are. */
  leadTo(target: string): void {
    this.#target = new URL(target);
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #lead(client: Socket): void {
    if (!this.#target) {
      client.destroy();
      return;
    }
    const gateway = connect(Number(this.#target.port), this.#target.hostname);
    for (const [from, to] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      // An end that breaks is closed, and takes the other with it.
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
