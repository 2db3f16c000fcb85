import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { WebhookEvent } from '../../src/webhooks/events.ts';

/** A received request. */
export type Received = { headers: IncomingHttpHeaders; body: string; event: WebhookEvent };

/** A customer's server: it answers as it is told, 204 by default, and keeps all that it was sent. */
export class WebhookReceiver {
  readonly received: Received[] = [];
  /** The requests that were answered with 2xx. */
  readonly taken: Received[] = [];
  /** Largest number of requests of one room that it had at the same moment. */
  mostAtOnce = 0;
  answer: (of: Received) => number | Promise<number> = () => 204;
  readonly #atOnce = new Map<unknown, number>();
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      const event = JSON.parse(body) as WebhookEvent;
      void this.#take({ headers: request.headers, body, event }, response);
    });
  });

  static async start(port = 0): Promise<WebhookReceiver> {
    const receiver = new WebhookReceiver();
    receiver.#server.listen(port, '127.0.0.1');
    await once(receiver.#server, 'listening');
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/hook`;
  }

  /** Accepted events in short form, each once: `peer_joined a/ada`. */
  get story(): string[] {
    const events = new Map(this.taken.map(({ event }) => [event.id, event]));
    return [...events.values()].map(storyOf);
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  async #take(request: Received, response: ServerResponse): Promise<void> {
    const room = 'room' in request.event ? request.event.room : '';
    const atOnce = (this.#atOnce.get(room) ?? 0) + 1;
    this.#atOnce.set(room, atOnce);
    this.mostAtOnce = Math.max(this.mostAtOnce, atOnce);
    // A request that is broken off is over.
    response.once('close', () => this.#atOnce.set(room, (this.#atOnce.get(room) ?? 1) - 1));
    this.received.push(request);
    const status = await this.answer(request);
    if (status >= 200 && status < 300) this.taken.push(request);
    response.writeHead(status, status === 302 ? { location: '/elsewhere' } : {}).end('thanks');
  }
}

function storyOf(event: WebhookEvent): string {
  const { type } = event;
  if (type === 'quota_exhausted') return type;
  return 'peer' in event ? `${type} ${event.room}/${event.peer}` : `${type} ${event.room}`;
}

/** Returns whether a request is signed with a secret, as the example in docs/operations/accounts.md does. */
export async function isSigned({ headers, body }: Received, secret: string): Promise<boolean> {
  const page = await readFile(
    new URL('../../docs/operations/accounts.md', import.meta.url),
    'utf8',
  );
  const [, example = ''] = /```js\n(import .*?)```/s.exec(page) ?? [];
  const { isFromPartyline } = (await import(
    `data:text/javascript,${encodeURIComponent(example)}`
  )) as {
    isFromPartyline: (of: IncomingHttpHeaders, text: string, key: string) => boolean;
  };
  return isFromPartyline(headers, body, secret);
}
