import { FRAME_SAMPLES } from '../format.ts';

/** Duration of short packets in a row after which a speaker no longer counts as one that sends long ones, samples at 48 kHz: 1 s. */
const SHORT_AGAIN_SAMPLES = 50 * FRAME_SAMPLES;

/** Tells whether a speaker sends long packets, which are longer than a tick; a sender may change the length of its packets. */
export class LongPackets {
  #isLong = false;
  /** Duration of the packets since the last long one, samples. */
  #shortSamples = 0;

  get isLong(): boolean {
    return this.#isLong;
  }

  /**
   * Notes the length of a packet.
   * @param isPlayed true while the speaker is mixed: listeners of the mix wait for the end of a long packet
   * @returns true if the speaker counts as one of long packets from this packet on
   */
  note(durationSamples: number, isPlayed: boolean): boolean {
    const isFirst = !this.#isLong && durationSamples > FRAME_SAMPLES;
    this.#shortSamples = durationSamples > FRAME_SAMPLES ? 0 : this.#shortSamples + durationSamples;
    if (isFirst) this.#isLong = true;
    else if (!isPlayed && this.#shortSamples >= SHORT_AGAIN_SAMPLES) this.#isLong = false;
    return isFirst;
  }
}
