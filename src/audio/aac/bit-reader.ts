/** Reads bits, the highest of each byte first. */
export class BitReader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Number of remaining bits. */
  get left(): number {
    return 8 * this.#bytes.length - this.#at;
  }

  /**
   * Reads up to 25 bits.
   * @throws {Error} beyond the end
   */
  read(bits: number): number {
    if (bits > this.left) throw new Error('The frame is cut short.');
    const from = this.#at >> 3;
    const bytes = this.#bytes;
    const word =
      (bytes[from]! << 24) |
      ((bytes[from + 1] ?? 0) << 16) |
      ((bytes[from + 2] ?? 0) << 8) |
      (bytes[from + 3] ?? 0);
    const value = bits === 0 ? 0 : (word << (this.#at & 7)) >>> (32 - bits);
    this.#at += bits;
    return value;
  }

  readFlag(): boolean {
    return this.read(1) === 1;
  }

  /** @throws {Error} beyond the end */
  skip(bits: number): void {
    if (bits > this.left) throw new Error('The frame is cut short.');
    this.#at += bits;
  }

  /** Skips to the next whole byte. */
  align(): void {
    this.#at = (this.#at + 7) & ~7;
  }
}
