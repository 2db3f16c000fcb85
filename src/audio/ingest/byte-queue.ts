/** Least memory for what is held, as a multiple of it: what is held is moved at most once while half of it comes. */
const SPARE = 1.5;
const FIRST_CAPACITY_BYTES = 512;

/**
 * Holds what a reader has not taken yet of bytes that come in messages cut anywhere. Each byte is copied a few times on average,
 * whatever the lengths of the messages. The caller bounds how much may be left over.
 */
export class ByteQueue {
  #memory = Buffer.alloc(0);
  #from = 0;
  #to = 0;
  #copiedBytes = 0;

  /** Memory that it holds, bytes. */
  get heldBytes(): number {
    return this.#memory.length;
  }

  /** Bytes that have been copied so far: the work done. */
  get copiedBytes(): number {
    return this.#copiedBytes;
  }

  /**
   * Has everything read that has not been taken yet, and behind it `chunk`.
   * @param read returns how many bytes it has taken; the bytes are a view that is valid until it returns
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
