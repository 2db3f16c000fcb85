import type { FastifyBaseLogger } from 'fastify';
import type { ReceivedRtp } from '../media/received-rtp.ts';
import type { RateEvents, RtpBudget } from './rtp-budget.ts';

/** Number of intervals without a look after which this process has stood still. */
const STALLED_INTERVALS = 2;

/** All that has been received by a time. */
type Count = ReceivedRtp & { atMs: number };

/**
 * Watches the RTP of a muted or paused producer: the media worker decrypts its packets and drops them, so that none come here. They are
 * charged to the budget of the peer as those of other producers are.
 */
export class MutedRtp {
  readonly #log: () => FastifyBaseLogger;
  readonly #events: RateEvents;
  readonly #budget: () => RtpBudget;
  /** Last count since the producer was muted. */
  #last: Count | undefined;
  #isCounting = false;

  /**
   * @param log returns the log of its present connection
   * @param budget returns the budget of the peer
   */
  constructor(log: () => FastifyBaseLogger, events: RateEvents, budget: () => RtpBudget) {
    this.#log = log;
    this.#events = events;
    this.#budget = budget;
  }

  /**
   * Charges what has come, and tells or ends the client if it is over its budget. To be called each second.
   * @param count returns all that the producer has received, or undefined if it has closed; undefined if there is no producer
   */
  async look(
    nowMs: number,
    isMuted: boolean,
    count: (() => Promise<ReceivedRtp | undefined>) | undefined,
  ): Promise<void> {
    if (this.#isCounting) return;
    if (!count || !(isMuted || this.#last)) {
      this.#last = undefined;
      return;
    }
    if (isMuted && this.#last && nowMs - this.#last.atMs < this.#everyMs) return;
    this.#isCounting = true;
    try {
      const received = await count();
      this.#counted(received && { ...received, atMs: nowMs }, isMuted);
    } catch (fault) {
      this.#log().warn({ err: fault }, 'packets of a muted producer not counted');
    } finally {
      this.#isCounting = false;
    }
  }

  /** Interval of the counts, ms: a sender over its budget is counted at each look, so that the budget does not recover in between. */
  get #everyMs(): number {
    const budget = this.#budget();
    return budget.isOver ? 0 : budget.endAfterMs;
  }

  #counted(received: Count | undefined, isMuted: boolean): void {
    const last = this.#last;
    // Packets that come while it is heard are charged one by one.
    this.#last = isMuted ? received : undefined;
    if (!received || !last || last.packets > received.packets) return;
    const budget = this.#budget();
    // After a stall of this process the sum says nothing about a second of it.
    if (received.atMs - last.atMs > STALLED_INTERVALS * budget.endAfterMs) return;
    const packets = received.packets - last.packets;
    const bytes = received.bytes - last.bytes;
    const isExceeded = budget.chargeDropped({ packets, bytes }, received.atMs);
    if (budget.takeWarning()) this.#events.onWarned();
    if (isExceeded) this.#events.onExceeded();
  }
}
