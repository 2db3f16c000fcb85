import type { FastifyBaseLogger } from 'fastify';
import { networkOf } from '../network-of.ts';

/** Number of addresses that are counted separately within an interval; the rest is summed up together. */
const MAX_ADDRESSES = 1000;
const OTHERS = 'others';

type Refusals = { byReason: Record<string, number>; isTold: boolean };

/**
 * Sums up refusals of unauthenticated requests in the log: at most two lines per interval for each address,
 * the first at once.
 */
export class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #timer: NodeJS.Timeout;
  readonly #addresses = new Map<string, Refusals>();

  /** @param everyMs the interval */
  constructor(log: FastifyBaseLogger, everyMs: number) {
    this.#log = log;
    this.#timer = setInterval(() => this.#flush(), everyMs);
  }

  /** @param reason code of the error, or HTTP status */
  add(address: string, reason: string): void {
    const network = networkOf(address);
    const isKnown = this.#addresses.has(network) || this.#addresses.size < MAX_ADDRESSES;
    const key = isKnown ? network : OTHERS;
    const refusals = this.#addresses.get(key);
    if (refusals) {
      refusals.byReason[reason] = (refusals.byReason[reason] ?? 0) + 1;
      refusals.isTold = false;
      return;
    }
    this.#addresses.set(key, { byReason: {}, isTold: true });
    this.#log.info({ address: key, refused: { [reason]: 1 } }, 'request refused');
  }

  close(): void {
    clearInterval(this.#timer);
    this.#flush();
  }

  #flush(): void {
    for (const [address, { byReason, isTold }] of this.#addresses) {
      if (!isTold) this.#log.info({ address, refused: byReason }, 'further requests refused');
    }
    this.#addresses.clear();
  }
}
