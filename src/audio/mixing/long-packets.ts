import { FRAME_SAMPLES } from '../format.ts';

/** Duration of packets of at most a tick after which a speaker no longer counts as one of long packets, samples at 48 kHz: 1 s. */
const SHORT_AGAIN_SAMPLES = 50 * FRAME_SAMPLES;

/** Records whether a speaker sends packets that are longer than a tick: senders change the length of their packets. */
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
   * @returns true if it is the first one that is longer than a tick
   */
  note(durationSamples: number, isPlayed: boolean): boolean {
    const isFirst = !this.#isLong && durationSamples > FRAME_SAMPLES;
    this.#shortSamples = durationSamples > FRAME_SAMPLES ? 0 : this.#shortSamples + durationSamples;
    if (isFirst) this.#isLong = true;
    else if (!isPlayed && this.#shortSamples >= SHORT_AGAIN_SAMPLES) this.#isLong = false;
    return isFirst;
  }
}
