import type { Redis } from '../store/redis.ts';
import { type LeaseHolder, keysOfPeer } from './lease-holder.ts';

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
  readonly #waiting = new Map<LeaseHolder, Release>();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Returns the holders whose leases are not released yet. */
  holders(): LeaseHolder[] {
    return [...this.#waiting.keys()];
  }

  /** Leaves a release to {@link repeat}. */
  add(holder: LeaseHolder, how: Release): void {
    this.#waiting.set(holder, how);
  }

  /** Releases a lease. @throws {PartylineError} `overloaded`; {@link repeat} tries once more */
  async release(holder: LeaseHolder, how: Release): Promise<void> {
    this.add(holder, how);
    await this.repeat(holder);
  }

  /** Releases a lease that is not released yet. @throws {PartylineError} `overloaded` */
  async repeat(holder: LeaseHolder): Promise<void> {
    const how = this.#waiting.get(holder);
    if (!how) return;
    const { peer, connectionId } = holder;
    const words = [peer, connectionId, String(how.keepSettingsMs), how.isWithdrawn ? '1' : '0'];
    const options = { keys: keysOfPeer(holder), arguments: words };
    await this.#redis.run((client) => client.releaseLease(options));
    this.#waiting.delete(holder);
  }
}
