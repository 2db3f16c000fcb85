import type { Held } from '../../rtp/jitter-buffer.ts';
import { sequenceDelta, timestampDelta } from '../../rtp/sequence.ts';

/**
 * Samples that were concealed since the last packet because no other had arrived. The next packet shows how many of them stand in for
 * packets, which were late or lost, and how many for a pause of the sender.
 */
export class AwaitedSamples {
  #samples = 0;

  add(samples: number): void {
    this.#samples += samples;
  }

  /** Returns how many of the samples stand in for packets between `before` and `packet`, or for a late `packet`; begins again with none. */
  settle(before: Held | undefined, packet: Held): number {
    const samples = this.#samples;
    this.#samples = 0;
    if (samples === 0 || !before) return samples;
    if (sequenceDelta(before.sequenceNumber, packet.sequenceNumber) !== 1) return samples;
    const aheadSamples = timestampDelta(before.timestamp, packet.timestamp);
    const pauseSamples = Math.max(0, aheadSamples - before.durationSamples);
    return Math.max(0, samples - pauseSamples);
  }
}
