import type { Redis } from '../store/redis.ts';
import { type Holder, keysOfPeer } from './lease-holder.ts';

/** The way in which a lease is released. */
export type Release = {
  /** Time for which the settings of a peer without a place are kept, ms. */
  keepSettingsMs: number;
  /** True if the holder was refused: the place of its peer stays, and so do the settings beside it. */
  isWithdrawn: boolean;
};

/** Releases of leases. Those that Redis did not take are repeated. */
export class LeaseReleases {
  readonly #redis: Redis;
  readonly #waiting = new Map<Holder, Release>();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Returns the holders whose leases are not released yet. */
  holders(): Holder[] {
    return [...this.#waiting.keys()];
  }

  /** Leaves a release to {@link repeat}. */
  add(holder: Holder, how: Release): void {
    this.#waiting.set(holder, how);
  }

  /** Releases a lease. @throws {PartylineError} `overloaded`; {@link repeat} tries once more */
  async release(holder: Holder, how: Release): Promise<void> {
    this.add(holder, how);
    await this.repeat(holder);
  }

  /** Releases a lease that is not released yet. @throws {PartylineError} `overloaded` */
  async repeat(holder: Holder): Promise<void> {
    const how = this.#waiting.get(holder);
    if (!how) return;
    const { peer, connectionId } = holder;
    const words = [peer, connectionId, String(how.keepSettingsMs), how.isWithdrawn ? '1' : '0'];
    const options = { keys: keysOfPeer(holder), arguments: words };
    await this.#redis.run((client) => client.releaseLease(options));
    this.#waiting.delete(holder);
  }
}
