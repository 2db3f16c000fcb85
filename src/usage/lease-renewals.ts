import type { Timings } from '../../config/timings.ts';
import type { Redis } from '../store/redis.ts';

/**
 * Renews leases at an interval, and after each reconnect as soon as Redis takes writes: they may have expired meanwhile, and
 * the next admission of their account would evict them with the places and settings of their peers.
 */
export class LeaseRenewals {
  readonly #redis: Pick<Redis, 'isReady' | 'isAvailable'>;
  readonly #renew: () => void;
  readonly #retryEveryMs: number;
  readonly #timer: NodeJS.Timeout;
  readonly #stopListening: () => void;
  #retry: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(
    redis: Pick<Redis, 'isReady' | 'isAvailable' | 'onReconnect'>,
    renew: () => void,
    { renewEveryMs, retryEveryMs }: Timings['leases'],
  ) {
    this.#redis = redis;
    this.#renew = renew;
    this.#retryEveryMs = retryEveryMs;
    this.#timer = setInterval(renew, renewEveryMs);
    this.#stopListening = redis.onReconnect(() => void this.#renewWhenWritable());
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#retry);
    this.#stopListening();
  }

  /** Renews unless Redis still loads its data, or refuses writes for another reason: then it is asked again later. */
  async #renewWhenWritable(): Promise<void> {
    clearTimeout(this.#retry);
    const isAvailable = await this.#redis.isAvailable();
    // Without a connection the next reconnect begins anew.
    if (this.#isClosed || !this.#redis.isReady) return;
    if (isAvailable) this.#renew();
    else this.#retry = setTimeout(() => void this.#renewWhenWritable(), this.#retryEveryMs);
  }
}
