import type { ReceivedRtp, RtpBudget } from './rtp-budget.ts';

/** Number of intervals without a look after which this process has stood still. */
const STALLED_INTERVALS = 2;

/**
 * Watches the RTP of a muted or paused producer: the media worker decrypts its packets and drops them, so that none come here. They are
 * charged to the budget of the peer as those of other producers are.
 */
export class MutedRtp {
  #countedAtMs = -Infinity;
  #last: ReceivedRtp | undefined;

  /**
   * Counts the packets, as often as a sender may be over its budget before it is ended. To be called at intervals.
   * @param count returns all that the producer has received; undefined while it is not muted
   * @returns true if the peer has been over its budget for too long
   */
  async look(
    nowMs: number,
    budget: () => RtpBudget,
    count: (() => Promise<ReceivedRtp>) | undefined,
  ): Promise<boolean> {
    if (!count) {
      this.#last = undefined;
      this.#countedAtMs = -Infinity;
      return false;
    }
    const sinceMs = nowMs - this.#countedAtMs;
    const everyMs = budget().endAfterMs;
    if (sinceMs < everyMs) return false;
    this.#countedAtMs = nowMs;
    const received = await count();
    const last = this.#last;
    this.#last = received;
    // After a stall of this process the sum says nothing about a second of it.
    if (!last || sinceMs > STALLED_INTERVALS * everyMs || last.packets > received.packets)
      return false;
    const packets = received.packets - last.packets;
    return budget().chargeDropped({ packets, bytes: received.bytes - last.bytes }, nowMs);
  }
}
