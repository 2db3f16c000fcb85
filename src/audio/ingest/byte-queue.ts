/** Minimum memory, as a multiple of the held bytes: these are moved at most once while half as many arrive. */
const SPARE = 1.5;
const FIRST_CAPACITY_BYTES = 512;

/**
 * Holds bytes that a reader has not taken yet, of messages that are cut anywhere. Each byte is copied a few times on average,
 * for messages of any length. The caller bounds the number of held bytes.
 */
export class ByteQueue {
  #memory = Buffer.alloc(0);
  #from = 0;
  #to = 0;
  #copiedBytes = 0;

  /** Length of the memory that is held, bytes. */
  get heldBytes(): number {
    return this.#memory.length;
  }

  /** Number of bytes copied so far: the work done. */
  get copiedBytes(): number {
    return this.#copiedBytes;
  }

  /**
   * Calls `read` with all bytes that have not been taken yet, followed by `chunk`.
   * @param read returns the number of bytes that it has taken; the bytes are a view that is valid until it returns
   */
  push(chunk: Buffer, read: (bytes: Buffer) => number): void {
    if (this.#from === this.#to) {
      this.#from = 0;
      this.#to = 0;
      this.#append(chunk.subarray(read(chunk)));
    } else {
      this.#append(chunk);
      this.#from += read(this.#memory.subarray(this.#from, this.#to));
    }
  }

  #append(chunk: Buffer): void {
    const heldBytes = this.#to - this.#from;
    const neededBytes = heldBytes + chunk.length;
    if (this.#to + chunk.length > this.#memory.length) {
      const isTight = neededBytes * SPARE > this.#memory.length;
      const capacityBytes = Math.max(FIRST_CAPACITY_BYTES, Math.ceil(neededBytes * SPARE));
      const memory = isTight ? Buffer.alloc(capacityBytes) : this.#memory;
      this.#copiedBytes += this.#memory.copy(memory, 0, this.#from, this.#to);
      this.#memory = memory;
      this.#from = 0;
      this.#to = heldBytes;
    }
    this.#copiedBytes += chunk.copy(this.#memory, this.#to);
    this.#to = neededBytes + this.#from;
  }
}
