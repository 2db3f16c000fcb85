import { leaseKeys } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import type { Holder } from './lease-holder.ts';

/** Facts that are stored for the holder of a lease, for when it resumes. */
const NOTED = ['place', 'settings'] as const;
type Noted = (typeof NOTED)[number];

/** Texts that are stored for the holders of leases; those that Redis did not take are kept until it does. */
export class LeaseNotes {
  readonly #redis: Redis;
  /** By holder: what is being written, or could not be written because Redis was disconnected. */
  readonly #unwritten = new Map<Holder, Partial<Record<Noted, string>>>();

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Returns the holders of unwritten texts. */
  holders(): Holder[] {
    return [...this.#unwritten.keys()];
  }

  /** Stores a text for a holder of a lease. @throws {PartylineError} `overloaded`; {@link writeAgain} tries once more */
  async write(holder: Holder, what: Noted, text: string): Promise<void> {
    this.#unwritten.set(holder, { ...this.#unwritten.get(holder), [what]: text });
    await this.#writeOne(holder, what, text);
  }

  /** Stores what could not be stored for a holder. @throws {PartylineError} `overloaded` */
  async writeAgain(holder: Holder): Promise<void> {
    for (const what of NOTED) {
      const text = this.#unwritten.get(holder)?.[what];
      if (text !== undefined) await this.#writeOne(holder, what, text);
    }
  }

  /** Forgets what could not be stored for a holder whose lease has ended. */
  forget(holder: Holder): void {
    this.#unwritten.delete(holder);
  }

  async #writeOne(holder: Holder, what: Noted, text: string): Promise<void> {
    const { accountId, peer, connectionId } = holder;
    const options = { keys: leaseKeys(accountId), arguments: [peer, connectionId, text] };
    await this.#redis.run((client) =>
      what === 'place' ? client.noteLeasePlace(options) : client.noteLeaseSettings(options),
    );
    const unwritten = this.#unwritten.get(holder);
    if (unwritten?.[what] !== text) return;
    delete unwritten[what];
    if (Object.keys(unwritten).length === 0) this.#unwritten.delete(holder);
  }
}
