const FIRST_CAPACITY_BYTES = 512;

/**
 * Assembles units (a page, an element) from messages that are cut anywhere. Each byte is copied once, and once more on average
 * while the memory grows, for messages of any length. The caller bounds the length of a unit.
 */
export class ByteCollector {
  #memory = Buffer.alloc(0);
  #length = 0;
  #copiedBytes = 0;

  get length(): number {
    return this.#length;
  }

  /** Collected bytes: a view that is valid until the next {@link fill} or {@link clear}. */
  get bytes(): Buffer {
    return this.#memory.subarray(0, this.#length);
  }

  /** Length of the memory that is held, bytes. */
  get heldBytes(): number {
    return this.#memory.length;
  }

  /** Number of bytes copied so far: the work done. */
  get copiedBytes(): number {
    return this.#copiedBytes;
  }

  /**
   * Copies bytes of `chunk` from `at` on, until the unit has `length` bytes or the chunk ends.
   * @returns number of bytes that were copied
   */
  fill(chunk: Buffer, at: number, length: number): number {
    const taken = Math.min(length - this.#length, chunk.length - at);
    this.#reserve(this.#length + taken);
    chunk.copy(this.#memory, this.#length, at, at + taken);
    this.#length += taken;
    this.#copiedBytes += taken;
    return taken;
  }

  clear(): void {
    this.#length = 0;
  }

  #reserve(length: number): void {
    if (length <= this.#memory.length) return;
    const grown = Buffer.alloc(Math.max(FIRST_CAPACITY_BYTES, 2 ** Math.ceil(Math.log2(length))));
    this.#copiedBytes += this.#memory.copy(grown, 0, 0, this.#length);
    this.#memory = grown;
  }
}
