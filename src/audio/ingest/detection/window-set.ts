import { randomInt } from 'node:crypto';

/** Maximum number of slots examined for one window. Half of the table is empty, so more are needed only if a client chose the bytes. */
const MAX_PROBES = 16;
/** Odd factor of 32 bits, drawn at start, that maps a hash to its slot. */
const MULTIPLIER = 2 * randomInt(2 ** 31) + 1;

/**
 * A set of window hashes (32 bits) in open addressing: a `Set` of as many numbers takes ten times as long. The slot depends on
 * all bits of the hash and on a number that this process drew at random, and the number of probes is bounded, so that
 * bytes chosen to collide cost no more than any others.
 */
export class WindowSet {
  readonly #slots: Int32Array;
  readonly #shift: number;
  readonly #multiplier: number;
  #probes = 0;

  /** @param capacity maximum number of windows that are added */
  constructor(capacity: number, multiplier = MULTIPLIER) {
    const bits = Math.max(1, Math.ceil(Math.log2(2 * capacity + 1)));
    this.#slots = new Int32Array(2 ** bits);
    this.#shift = 32 - bits;
    this.#multiplier = multiplier;
  }

  /** Number of slots examined so far: the work done. */
  get probes(): number {
    return this.#probes;
  }

  /**
   * Adds a hash.
   * @returns false if it is in the set already; true if it is new, or if its place was not found within the bound
   */
  add(hash: number): boolean {
    // 0 stands for an empty slot.
    const entry = hash | 1;
    const slots = this.#slots;
    const last = slots.length - 1;
    let at = Math.imul(entry, this.#multiplier) >>> this.#shift;
    for (let probe = 0; probe < MAX_PROBES; probe += 1) {
      this.#probes += 1;
      const found = slots[at];
      if (found === entry) return false;
      if (found === 0) {
        slots[at] = entry;
        return true;
      }
      at = (at + 1) & last;
    }
    return true;
  }
}
