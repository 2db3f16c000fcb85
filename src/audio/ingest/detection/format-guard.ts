import type { Detection } from './explanations.ts';

/**
 * A message beside those before it: nothing new; of another shape, so that the format should be weighed again; hardly of the format, so that nobody
 * should hear it before that; or a format that the stream has changed to.
 */
export type Look = 'as_before' | 'changed' | 'wrong' | Detection;

/** Looks at each message of a stream whose format was found out. The hot path: some microseconds for each. */
export type FormatGuard = {
  /** Takes a message from which the format was found out. */
  learn(message: Buffer): void;
  /**
   * @param startsAtBytes length of the stream before the message
   * @param atMs when the message came
   */
  look(message: Buffer, startsAtBytes: number, atMs: number): Look;
  /** Messages held as wrong turned out to be of the format. */
  reassure(): void;
};
