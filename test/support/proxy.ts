import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** A way to a gateway, over TCP, that can be cut, opened again, and led to another: what a network or a load balancer does. */
export class TestProxy {
  readonly url: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** The socket to which each open one leads, if it leads anywhere. */
  readonly #ways = new Map<Socket, Socket>();
  #held: [from: Socket, to: Socket][] = [];
  readonly #clients = new Set<Socket>();
  /** Undefined while it is cut. */
  #target: URL | undefined;
  #isSilent = false;
  #accepted = 0;

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
    this.#held = [...this.#ways];
    for (const socket of this.#sockets) socket.unpipe().pause();
  }

  /** Lets through what it held back since {@link hang}, late. */
  goOn(): void {
    for (const [from, to] of this.#held.splice(0)) from.pipe(to);
  }

  /** Takes what comes, and lets nothing through, also on new connections. */
  silence(): void {
    this.#isSilent = true;
    for (const socket of this.#sockets) socket.unpipe().resume();
  }

  /** Leads new connections again; those that were open meanwhile stay silent. */
  speak(): void {
    this.#isSilent = false;
  }

  /** Number of connections that it has accepted, and of those that are open. */
  get connections(): { accepted: number; open: number } {
    return { accepted: this.#accepted, open: this.#clients.size };
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
    this.#accepted += 1;
    this.#clients.add(client);
    client.on('close', () => this.#clients.delete(client));
    if (this.#isSilent) {
      this.#sockets.add(client);
      client.on('error', () => {}).on('close', () => this.#sockets.delete(client));
      client.resume();
      return;
    }
    const gateway = connect(Number(this.#target.port), this.#target.hostname);
    for (const [from, to] of [
      [client, gateway],
      [gateway, client],
    ] as const) {
      this.#sockets.add(from);
      this.#ways.set(from, to);
      from.pipe(to);
      // An end that breaks is closed, and takes the other with it.
      from.on('error', () => to.destroy());
      from.on('close', () => {
        this.#sockets.delete(from);
        this.#ways.delete(from);
        to.destroy();
      });
    }
  }
}
