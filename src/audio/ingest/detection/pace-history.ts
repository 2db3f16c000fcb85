import { type InputFormat, isSamples } from '../../format.ts';
import { frameBytesOf } from '../../samples.ts';

/** Time for which a change is counted, ms. */
const COUNTED_MS = 600_000;
/** Minimum difference of two distinct paces, as a share: jitter is less, and neighbouring rates differ by 9 % or more. */
export const LEAST_DIFFERENCE = 0.04;

/** True if two formats are the same samples at another pace, bytes a second. */
export function isOfOtherPace(one: InputFormat, other: InputFormat): boolean {
  if (!isSamples(one) || !isSamples(other) || one.codec !== other.codec) return false;
  const ratio = (one.rateHz * frameBytesOf(one)) / (other.rateHz * frameBytesOf(other));
  return Math.abs(ratio - 1) > LEAST_DIFFERENCE;
}

/** Known properties of one sender's network, and its changes of rate; kept from one format to the next. */
export class PaceHistory {
  /** Standard deviation of the delays of messages, ms. */
  jitterMs = 0;
  /** Change of the pace over half a second within half a second, as a share of the pace: the delay of some networks grows and shrinks. */
  wander = 0;
  /** Times at which another rate, or number of channels, was found, ms. */
  #atMs: number[] = [];

  addChange(nowMs: number): void {
    this.#atMs = [...this.#atMs.filter((atMs) => nowMs - atMs < COUNTED_MS), nowMs];
  }

  /** Returns the number of changes in the last ten minutes, less one: returning from a wrong change takes no longer than the change. */
  changesOfLate(nowMs: number): number {
    return Math.max(0, this.#atMs.filter((atMs) => nowMs - atMs < COUNTED_MS).length - 1);
  }
}
