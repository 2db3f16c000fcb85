import type { Detection } from './explanations.ts';

/**
 * Comparison of a message with those before it: as before; of another shape, so that the format should be weighed again; of other content,
 * so that the format should be weighed from this message on; hardly of the format, so that listeners should not hear it before that; or the
 * format to which the stream has changed.
 */
export type Look = 'as_before' | 'other_shape' | 'other_content' | 'wrong' | Detection;

/** Checks each message of a stream whose format was detected. The hot path: takes some microseconds per message, on average. */
export type FormatGuard = {
  /**
   * Processes a message from which the format was detected.
   * @param atMs arrival time of the message
   */
  learn(message: Buffer, atMs: number): void;
  /**
   * @param startsAtBytes length of the stream before the message
   * @param atMs arrival time of the message
   */
  look(message: Buffer, startsAtBytes: number, atMs: number): Look;
  /** Notes that messages held as wrong turned out to be of the format. */
  reassure(): void;
};
