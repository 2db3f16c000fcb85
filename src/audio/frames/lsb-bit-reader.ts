/** Reads bits, the lowest of each byte first (Vorbis I §2.1). */
export class LsbBitReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /**
   * Reads up to 24 bits; the first is the lowest of the value.
   * @throws {Error} beyond the end
   */
  read(bits: number): number {
    const from = this.#at >> 3;
    this.skip(bits);
    const bytes = this.#bytes;
    const word =
      bytes[from]! |
      ((bytes[from + 1] ?? 0) << 8) |
      ((bytes[from + 2] ?? 0) << 16) |
      ((bytes[from + 3] ?? 0) << 24);
    return (word >>> ((this.#at - bits) & 7)) & ((1 << bits) - 1);
  }

  readFlag(): boolean {
    return this.read(1) === 1;
  }

  /** @throws {Error} beyond the end */
  skip(bits: number): void {
    if (this.#at + bits > 8 * this.#bytes.length) throw new Error('A header is cut short.');
    this.#at += bits;
  }
}
