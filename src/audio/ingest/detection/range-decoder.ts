const LEAST_RANGE = 2 ** 23;
const CODE_MASK = 0x7fff_ffff;

/** Range decoder of Opus (RFC 6716 §4.1), for the first symbols of a frame. */
export class RangeDecoder {
  readonly #bytes: Uint8Array;
  #next = 1;
  #range = 128;
  #value: number;
  #rest: number;
  /** Bits that have been read from the end. */
  #rawBits = 0;

  /** @param bytes a frame of at least one byte */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#rest = bytes[0]!;
    this.#value = 127 - (this.#rest >> 1);
    this.#normalize();
  }

  /** Reads a bit that is set once in 2^`logP` times. */
  bit(logP: number): boolean {
    const part = this.#range >>> logP;
    const isSet = this.#value < part;
    if (!isSet) this.#value -= part;
    this.#range = isSet ? part : this.#range - part;
    this.#normalize();
    return isSet;
  }

  /** Reads one of `count` (at most 256) values that are equally frequent. */
  uniform(count: number): number {
    const unit = Math.floor(this.#range / count);
    const value = count - Math.min(Math.floor(this.#value / unit) + 1, count);
    const above = unit * (count - value - 1);
    this.#value -= above;
    this.#range = value > 0 ? unit : this.#range - above;
    this.#normalize();
    return value;
  }

  /** Reads `count` bits from the end of the frame. */
  raw(count: number): number {
    let value = 0;
    for (let i = 0; i < count; i += 1) {
      const at = this.#bytes.length - 1 - (this.#rawBits >> 3);
      value |= (((this.#bytes[at] ?? 0) >> (this.#rawBits & 7)) & 1) << i;
      this.#rawBits += 1;
    }
    return value;
  }

  #normalize(): void {
    while (this.#range <= LEAST_RANGE) {
      this.#range *= 256;
      const before = this.#rest;
      this.#rest = this.#bytes[this.#next] ?? 0;
      this.#next += 1;
      const symbol = ((before << 8) | this.#rest) >> 1;
      this.#value = ((this.#value << 8) + (255 & ~symbol)) & CODE_MASK;
    }
  }
}
