import { type InputFormat, isSamples } from '../../format.ts';
import { frameBytesOf } from '../../samples.ts';

/** Time for which a change is counted, ms. */
const COUNTED_MS = 600_000;
/** Two paces are told apart from this difference on: jitter is less, and neighbouring rates differ by 9 % or more. */
export const LEAST_DIFFERENCE = 0.04;

/** True if two formats are the same samples at another pace, bytes a second. */
export function isOfOtherPace(one: InputFormat, other: InputFormat): boolean {
  if (!isSamples(one) || !isSamples(other) || one.codec !== other.codec) return false;
  const ratio = (one.rateHz * frameBytesOf(one)) / (other.rateHz * frameBytesOf(other));
  return Math.abs(ratio - 1) > LEAST_DIFFERENCE;
}

/** Network of one sender, as far as it is known, and its changes of rate; kept from one format to the next. */
export class PaceHistory {
  /** Standard deviation of the delays of messages, ms. */
  jitterMs = 0;
  /** How much the pace over half a second changes in half a second, as a share of it: the delay of some networks grows and shrinks. */
  wander = 0;
  /** Times at which the stream was found to be of another rate, or of other channels. */
  #atMs: number[] = [];

  addChange(nowMs: number): void {
    this.#atMs = [...this.#atMs.filter((atMs) => nowMs - atMs < COUNTED_MS), nowMs];
  }

  /** Returns the number of changes in the last ten minutes, less one: to go back from a wrong one takes no longer. */
  changesOfLate(nowMs: number): number {
    return Math.max(0, this.#atMs.filter((atMs) => nowMs - atMs < COUNTED_MS).length - 1);
  }
}
