import { counters } from '../../counters.ts';
import { type Rate, TokenBucket } from '../../token-bucket.ts';
import { FRAME_MS } from '../format.ts';
import { CHANGES, StreamBudget, type StreamOverdraft } from './stream-budget.ts';

/**
 * Maximum seconds of sound per second, and at once, of one client: after a stall of 8 s all of it arrives at once, and the budget of messages
 * lets through 10 s and a debt of 1 s, and one whole message of any length while the debt is less.
 */
const SOUND: Rate = { perSecond: 1.25, burst: 12 };
/** Balance from which a client is within its budget again, s. */
const RECOVERED_S = 1;
const FRAMES_PER_S = 1000 / FRAME_MS;

/**
 * Budget of the sound of one client, in seconds, over all its formats and ingests: charged before sound is decoded or encoded, because a few
 * bytes may last for minutes. Full at first. Counts what it does not cover. The caller passes the time of arrival.
 */
export class SoundBudget {
  readonly #onUncovered: (seconds: number) => void;
  /** Budget of the encoders and resamplers that are opened for compressed sound: one for each stream, and each change of its rate. */
  readonly encoders: StreamBudget;
  /** Called when a stream of the client begins or changes more often than its budget allows; absent if it is refused at once. */
  readonly onOver: ((overdraft: StreamOverdraft) => void) | undefined;
  /**
   * Duration of Opus that has been charged and has not come yet, samples at 48 kHz. An ingest of Opus changes it, and leaves it to the next:
   * some recorders begin a new file for each chunk.
   */
  spareSamples = 0;
  #bucket: TokenBucket | undefined;
  #atMs = -Infinity;
  #overSinceMs: number | undefined;

  /**
   * @param onUncovered called with the duration of sound that is not covered, and so dropped, s
   * @param onOver value of {@link onOver}
   */
  constructor(
    onUncovered: (seconds: number) => void = () => {},
    onOver?: (overdraft: StreamOverdraft) => void,
  ) {
    this.#onUncovered = onUncovered;
    this.onOver = onOver;
    this.encoders = new StreamBudget(CHANGES, 'The format changes too often.', onOver);
  }

  /**
   * Charges sound that is heard as a whole or not at all.
   * @param chargedS duration that is charged, s: longer than the sound if later sound is charged with it
   * @returns false for sound beyond the budget, which costs nothing and must be dropped
   */
  admit(seconds: number, atMs: number, chargedS = seconds): boolean {
    const isCovered = this.#balanceS(atMs) >= chargedS;
    this.#charge(seconds, isCovered ? chargedS : 0);
    return isCovered;
  }

  /** Charges all of a sound, or as many frames of 20 ms as are covered. @returns the charged duration, s; what follows must be dropped */
  admitPart(seconds: number, atMs: number): number {
    const framesS = Math.floor(this.#balanceS(atMs) * FRAMES_PER_S) / FRAMES_PER_S;
    return this.#charge(seconds, this.#balanceS(atMs) >= seconds ? seconds : framesS);
  }

  /** Time for which sound has been beyond the budget, ms; 0 once a second of it has been available again. */
  get overMs(): number {
    return this.#overSinceMs === undefined ? 0 : this.#atMs - this.#overSinceMs;
  }

  #balanceS(atMs: number): number {
    // Times may go back: messages may be read a second time, in the format that they turn out to
    // have.
    this.#atMs = Math.max(this.#atMs, atMs);
    this.#bucket ??= new TokenBucket(SOUND, this.#atMs);
    return this.#bucket.balance(this.#atMs);
  }

  #charge(seconds: number, coveredS: number): number {
    if (this.#bucket!.balance(this.#atMs) >= RECOVERED_S) this.#overSinceMs = undefined;
    if (coveredS > 0) this.#bucket!.spend(coveredS, this.#atMs);
    if (coveredS < seconds) {
      counters.dropped.too_fast += 1;
      this.#overSinceMs ??= this.#atMs;
      this.#onUncovered(seconds - coveredS);
    }
    return coveredS;
  }
}
