import { SAMPLES_PER_MS } from '../../../rtp/clock-rate.ts';
import { opusPacketSamples } from '../../opus-packet.ts';

/** First TOC bytes of hybrid packets, whose frames are as short as those of CELT, and of CELT, which has no such flags (RFC 6716 §3.1). */
const FIRST_HYBRID_TOC = 12 << 3;
const FIRST_CELT_TOC = 16 << 3;
/** Number of SILK frames in a frame of 10, 20, 40 and 60 ms, each with a flag for voice. */
const SILK_FRAMES = [1, 1, 2, 3];
/** Length up to which a packet contains no frame that was encoded. */
const MAX_EMPTY_BYTES = 3;
/** Minimum ratio of the time since the packet before to its duration from which another may be missing between them. */
const LEAST_GAP = 1.5;
/** No TOC byte. */
const NONE = -1;

/**
 * Finds packets that claim to contain a copy of a packet without voice. SILK begins with flags: one for voice in each of its frames, and one
 * for a copy of the packet before (RFC 6716 §4.2.3). Encoders copy only what they took for voice; in encrypted packets behind a readable TOC
 * byte these flags are random.
 */
export class UnvoicedCopies {
  #toc = NONE;
  #hadVoice = true;
  #atMs = 0;

  /** Processes one packet; returns true if it claims to contain a copy of the one before, which had no voice. */
  push(packet: Uint8Array, atMs: number): boolean {
    const toc = packet[0]!;
    const tocBefore = this.#toc;
    if (toc >= FIRST_CELT_TOC || (toc & 3) !== 0 || packet.length <= MAX_EMPTY_BYTES) {
      this.#toc = NONE;
      return false;
    }
    const frames = toc >= FIRST_HYBRID_TOC ? 1 : SILK_FRAMES[(toc >> 3) & 3]!;
    const flags = packet[1]! >> (7 - frames);
    const isCopy = tocBefore === toc && !this.#hadVoice && (flags & 1) === 1;
    const sinceMs = atMs - this.#atMs;
    this.#toc = toc;
    this.#hadVoice = flags > 1;
    this.#atMs = atMs;
    return isCopy && sinceMs * SAMPLES_PER_MS <= LEAST_GAP * opusPacketSamples(packet)!;
  }
}
