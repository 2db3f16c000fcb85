/**
 * Time without a message after which the gateway is sent a request, ms: it sends statistics every 5 s, and audio. In doubt
 * about whether the connection still works, the request is sent at once.
 */
const ASK_AFTER_MS = { sound: 2500, text: 6000, doubt: 0 } as const;
/** Silence after which a connection counts as stalled for audio, ms. */
const STALLED_AFTER_MS = 4500;
/** Time without an answer after which a connection counts as lost, ms. */
const LOST_AFTER_MS = 5000;

/** State of a connection: it works, carries nothing for now, or must be given up. */
type PulseState = 'steady' | 'stalled' | 'lost';

/**
 * Detects a WebSocket on which nothing arrives any more: browsers expose neither its pings nor the state of its TCP connection. Times are
 * of one monotonic clock, ms.
 */
export class Pulse {
  readonly #ask: () => Promise<unknown>;
  /** Time of a question that has no answer yet. */
  #askedMs: number | undefined;

  /** @param ask sends a request that the gateway answers */
  constructor(ask: () => Promise<unknown>) {
    this.#ask = ask;
  }

  /** True while a question has no answer. */
  get isAsking(): boolean {
    return this.#askedMs !== undefined;
  }

  /**
   * Checks the connection, and asks a question if one is due; called a few times a second.
   * @param carries content of the connection: with audio, and in doubt, silence means more
   * @param heardMs time of the last message
   */
  look(carries: keyof typeof ASK_AFTER_MS, heardMs: number, nowMs: number): PulseState {
    const silentMs = nowMs - heardMs;
    if (silentMs >= ASK_AFTER_MS[carries] && this.#askedMs === undefined) {
      this.#askedMs = nowMs;
      const answered = () => (this.#askedMs = undefined);
      // A refusal is an answer, too; the end of a connection is reported separately.
      this.#ask().then(answered, answered);
    }
    const unansweredMs = nowMs - (this.#askedMs ?? nowMs);
    if (Math.min(silentMs, unansweredMs) >= LOST_AFTER_MS) return 'lost';
    return silentMs >= STALLED_AFTER_MS ? 'stalled' : 'steady';
  }
}
