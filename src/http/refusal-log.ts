import type { FastifyBaseLogger } from 'fastify';
import { networkOf } from '../network-of.ts';

/** Number of networks that are counted separately; refusals of further networks are summed under `others`. */
const MAX_NETWORKS = 1000;
const OTHERS = 'others';

/** Number of refusals by their reason. */
type Refusals = Record<string, number>;

/**
 * Sums up refusals of unauthenticated requests in the log. The first refusal of a network is logged at once, further
 * ones as one line at the end of each interval, until an interval has none: one line per interval, and one more at the
 * beginning.
 */
export class RefusalLog {
  readonly #log: FastifyBaseLogger;
  readonly #timer: NodeJS.Timeout;
  /** Refusals that are not logged yet, of each network that was refused in this interval or summed up at its beginning. */
  readonly #networks = new Map<string, Refusals>();

  /** @param everyMs the interval */
  constructor(log: FastifyBaseLogger, everyMs: number) {
    this.#log = log;
    this.#timer = setInterval(() => this.#flush(), everyMs);
  }

  /** @param reason code of the error, or HTTP status */
  add(address: string, reason: string): void {
    const network = networkOf(address);
    const isCounted = this.#networks.has(network) || this.#networks.size < MAX_NETWORKS;
    const key = isCounted ? network : OTHERS;
    const refusals = this.#networks.get(key);
    if (refusals) {
      refusals[reason] = (refusals[reason] ?? 0) + 1;
      return;
    }
    this.#networks.set(key, {});
    this.#log.info({ address: key, refused: { [reason]: 1 } }, 'request refused');
  }

  close(): void {
    clearInterval(this.#timer);
    this.#flush();
  }

  #flush(): void {
    for (const [address, refused] of this.#networks) {
      if (Object.keys(refused).length === 0) {
        this.#networks.delete(address);
        continue;
      }
      this.#log.info({ address, refused }, 'further requests refused');
      this.#networks.set(address, {});
    }
  }
}
