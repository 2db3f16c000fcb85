import { TestClient } from './client.ts';

/** Result of the join of one newcomer. */
export type Arrival = {
  peer: string;
  /** When it tried, `performance.now()`. */
  atMs: number;
  /** True if it got into its room; otherwise `reason` says why not. */
  isIn: boolean;
  reason: string;
};

/** Time that a newcomer waits for an answer, ms: more than a command of Redis may take. */
const PATIENCE_MS = 4000;

/** Clients that come one after the other, each to the next of some gateways, join a room and leave again. */
export class Newcomers {
  readonly arrivals: Arrival[] = [];
  readonly #gateways: { url: string; apiKey: string }[];
  readonly #everyMs: number;
  readonly #coming = new Set<Promise<void>>();
  #timer: NodeJS.Timeout;
  #count = 0;

  constructor(gateways: { url: string; apiKey: string }[], everyMs: number) {
    this.#gateways = gateways;
    this.#everyMs = everyMs;
    this.#timer = setInterval(() => this.#next(), this.#everyMs);
  }

  /** Stops them, and waits for those that are on their way. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#coming);
  }

  /** The first that got in of those that tried after a moment. */
  firstInAfter(ms: number): Arrival | undefined {
    return this.arrivals.find(({ atMs, isIn }) => isIn && atMs > ms);
  }

  #next(): void {
    const gateway = this.#gateways[this.#count % this.#gateways.length]!;
    this.#count += 1;
    const coming = this.#come(gateway, `newcomer ${this.#count}`).finally(() =>
      this.#coming.delete(coming),
    );
    this.#coming.add(coming);
  }

  async #come({ url, apiKey }: { url: string; apiKey: string }, peer: string): Promise<void> {
    const atMs = performance.now();
    const arrived = (isIn: boolean, reason: string) =>
      this.arrivals.push({ peer, atMs, isIn, reason });
    let client: TestClient | undefined;
    try {
      client = await TestClient.connect(url, { room: peer, peer, api_key: apiKey, audio: 'opus' });
      const { messages } = client;
      const answer = await client.until(
        'answer',
        () => messages.find(({ type }) => type === 'joined' || type === 'error'),
        PATIENCE_MS,
      );
      arrived(answer.type === 'joined', answer.type === 'error' ? answer.code : '');
      await client.close();
    } catch (fault) {
      arrived(false, String(fault));
      client?.vanish();
    }
  }
}
