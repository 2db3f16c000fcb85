/**
 * Silence of the gateway after which it is asked something, ms. It sends statistics every 5 s, and sound. It is asked at once if
 * what it said last may not hold any more.
 */
const ASK_AFTER_MS = { sound: 2500, text: 6000, doubt: 0 } as const;
/** Silence after which a connection is held to carry no sound, ms. */
const STALLED_AFTER_MS = 4500;
/** Time in which a connection that carries anything has brought an answer, ms. */
const LOST_AFTER_MS = 5000;

/** State of a connection: it carries what it should, carries nothing for now, or is to be given up. */
type PulseState = 'steady' | 'stalled' | 'lost';

/** Notices that a WebSocket carries nothing any more: browsers show neither its pings nor what TCP waits for. Times are of any steady clock, ms. */
export class Pulse {
  readonly #ask: () => Promise<unknown>;
  /** When a question was asked that has no answer yet. */
  #askedMs: number | undefined;

  /** @param ask has the gateway answer something */
  constructor(ask: () => Promise<unknown>) {
    this.#ask = ask;
  }

  /** True while a question has no answer. */
  get isAsking(): boolean {
    return this.#askedMs !== undefined;
  }

  /**
   * Looks how the connection does, and asks if it is time to; called a few times a second.
   * @param carries what goes by it: with sound, and in doubt, silence means more
   * @param heardMs when anything last came
   */
  look(carries: keyof typeof ASK_AFTER_MS, heardMs: number, nowMs: number): PulseState {
    const silentMs = nowMs - heardMs;
    if (silentMs >= ASK_AFTER_MS[carries] && this.#askedMs === undefined) {
      this.#askedMs = nowMs;
      const answered = () => (this.#askedMs = undefined);
      // A refusal is an answer, too, and a connection that ends says so itself.
      this.#ask().then(answered, answered);
    }
    const unansweredMs = nowMs - (this.#askedMs ?? nowMs);
    if (Math.min(silentMs, unansweredMs) >= LOST_AFTER_MS) return 'lost';
    return silentMs >= STALLED_AFTER_MS ? 'stalled' : 'steady';
  }
}
