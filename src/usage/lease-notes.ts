import { leaseKeys } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import type { LeaseHolder } from './lease-holder.ts';

/** Facts that are stored for the holder of a lease, for when it resumes. */
const NOTED = ['place', 'settings'] as const;
type Noted = (typeof NOTED)[number];

/**
 * Texts that are stored for the holders of leases. Each is kept while its lease is held, so that it can be written again if Redis
 * refused or lost it.
 */
export class LeaseNotes {
  readonly #redis: Redis;
  readonly #texts = new Map<LeaseHolder, Partial<Record<Noted, string>>>();
  /** Texts that are being written, could not be written because Redis was disconnected, or were lost, by holder. */
  readonly #unwritten = new Map<LeaseHolder, Set<Noted>>();
  readonly #stopListening: () => void;

  constructor(redis: Redis) {
    this.#redis = redis;
    this.#stopListening = redis.onReconnect(() => {
      for (const holder of this.#texts.keys()) this.doubt(holder);
    });
  }

  close(): void {
    this.#stopListening();
  }

  /** Returns the holders of unwritten texts. */
  holders(): LeaseHolder[] {
    return [...this.#unwritten.keys()];
  }

  /** Keeps a text that Redis has stored together with the lease. */
  keep(holder: LeaseHolder, what: Noted, text: string): void {
    this.#texts.set(holder, { ...this.#texts.get(holder), [what]: text });
  }

  /** Stores a text for a holder of a lease. @throws {PartylineError} `overloaded`; {@link writeAgain} tries once more */
  async write(holder: LeaseHolder, what: Noted, text: string): Promise<void> {
    this.keep(holder, what, text);
    this.#mark(holder, what);
    await this.#writeOne(holder, what, text);
  }

  /** Notes that Redis has no such text of a holder; {@link writeAgain} stores it, unless there is none. */
  noteMissing(holder: LeaseHolder, what: Noted): void {
    if (this.#texts.get(holder)?.[what]) this.#mark(holder, what);
  }

  /** Notes that Redis may have other texts of a holder; {@link writeAgain} stores all. */
  doubt(holder: LeaseHolder): void {
    for (const what of NOTED) {
      if (this.#texts.get(holder)?.[what] !== undefined) this.#mark(holder, what);
    }
  }

  /** Stores what Redis did not take, or has lost, of a holder. @throws {PartylineError} `overloaded` */
  async writeAgain(holder: LeaseHolder): Promise<void> {
    for (const what of NOTED) {
      const text = this.#texts.get(holder)?.[what];
      if (text !== undefined && this.#unwritten.get(holder)?.has(what))
        await this.#writeOne(holder, what, text);
    }
  }

  /** Forgets the texts of a holder whose lease has ended. */
  forget(holder: LeaseHolder): void {
    this.#texts.delete(holder);
    this.#unwritten.delete(holder);
  }

  #mark(holder: LeaseHolder, what: Noted): void {
    const unwritten = this.#unwritten.get(holder) ?? new Set();
    this.#unwritten.set(holder, unwritten.add(what));
  }

  async #writeOne(holder: LeaseHolder, what: Noted, text: string): Promise<void> {
    const { accountId, peer, connectionId } = holder;
    const options = { keys: leaseKeys(accountId), arguments: [peer, connectionId, text] };
    await this.#redis.run((client) =>
      what === 'place' ? client.noteLeasePlace(options) : client.noteLeaseSettings(options),
    );
    const unwritten = this.#unwritten.get(holder);
    if (!unwritten || this.#texts.get(holder)?.[what] !== text) return;
    unwritten.delete(what);
    if (unwritten.size === 0) this.#unwritten.delete(holder);
  }
}
