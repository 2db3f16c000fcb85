import { once } from 'node:events';
import { connect, createServer, type Server } from 'node:net';

/**
 * A way to a Redis that loses all answers once a command with a given text has been sent: the command runs, and its sender
 * does not learn of it.
 */
export class LosingProxy {
  readonly url: string;
  /** Text of the command; undefined while no answer is lost. */
  from: string | undefined;
  readonly #server: Server;

  private constructor(server: Server, target: URL) {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
    this.url = `redis://127.0.0.1:${address.port}`;
    this.#server = server;
    server.on('connection', (client) => {
      const redis = connect(Number(target.port), target.hostname);
      let isLosing = false;
      client.on('data', (bytes: Buffer) => {
        isLosing ||= this.from !== undefined && bytes.includes(this.from);
        redis.write(bytes);
      });
      redis.on('data', (bytes: Buffer) => isLosing || client.write(bytes));
      for (const [end, other] of [
        [client, redis],
        [redis, client],
      ] as const) {
        end.on('error', () => {}).on('close', () => other.destroy());
      }
    });
  }

  static async open(target: string): Promise<LosingProxy> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new LosingProxy(server, new URL(target));
  }

  async close(): Promise<void> {
    this.#server.close();
    await once(this.#server, 'close');
  }
}
