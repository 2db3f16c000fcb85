import { leaseKeys } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import type { LeaseHolder } from './lease-holder.ts';

/** Kinds of texts that are stored beside a lease, and read when its holder resumes. */
const NOTED = ['place', 'settings'] as const;
type Noted = (typeof NOTED)[number];

/**
 * Texts that are stored in Redis for the holders of leases. A copy is kept while the lease is held, so that a text can be written
 * again if Redis refused or lost it.
 */
export class LeaseNotes {
  readonly #redis: Redis;
  readonly #texts = new Map<LeaseHolder, Partial<Record<Noted, string>>>();
  /** Kinds of texts, by holder, that are being written, that Redis refused, or that it may have lost. */
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

  /** Keeps a copy of a text that Redis has stored together with the lease. */
  keep(holder: LeaseHolder, what: Noted, text: string): void {
    this.#texts.set(holder, { ...this.#texts.get(holder), [what]: text });
  }

  /** Stores a text for a holder of a lease. @throws {PartylineError} `overloaded`; {@link writeAgain} tries once more */
  async write(holder: LeaseHolder, what: Noted, text: string): Promise<void> {
    this.keep(holder, what, text);
    this.#mark(holder, what);
    await this.#writeOne(holder, what, text);
  }

  /** Notes that Redis lacks a text of a holder; {@link writeAgain} stores it, if there is a copy. */
  noteMissing(holder: LeaseHolder, what: Noted): void {
    if (this.#texts.get(holder)?.[what]) this.#mark(holder, what);
  }

  /** Notes that the texts of a holder in Redis may be missing or old; {@link writeAgain} stores all of them. */
  doubt(holder: LeaseHolder): void {
    for (const what of NOTED) {
      if (this.#texts.get(holder)?.[what] !== undefined) this.#mark(holder, what);
    }
  }

  /** Stores the unwritten texts of a holder. @throws {PartylineError} `overloaded` */
  async writeAgain(holder: LeaseHolder): Promise<void> {
    for (const what of NOTED) {
      const text = this.#texts.get(holder)?.[what];
      if (text !== undefined && this.#unwritten.get(holder)?.has(what))
        await this.#writeOne(holder, what, text);
    }
  }

  /** Removes the copies of a holder whose lease has ended. */
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
