import { RequestError } from './errors.ts';
import type { Wish } from './phase.ts';

/** Time for which joins in a row may fail in the browser before a room is given up, ms. */
const GIVEN_UP_AFTER_MS = 60_000;

/**
 * Returns true if a join that failed is to be repeated over the next connection. In a room that has been joined before,
 * the browser can play audio: a file may not have loaded because the network was only just coming back.
 */
export function isRepeated(wish: Wish, error: Error): boolean {
  if (error instanceof RequestError) {
    return error.code === 'timeout' || (wish.fulfilled && error.retryable);
  }
  wish.failingSinceMs ??= performance.now();
  return wish.fulfilled && performance.now() - wish.failingSinceMs < GIVEN_UP_AFTER_MS;
}

/** Returns the fault of a room that is given up; undefined if it had never been joined, and `join()` fails with the error. */
export function faultOf(wish: Wish, error: Error): string | undefined {
  if (!wish.fulfilled) return undefined;
  if (error instanceof RequestError) return error.message;
  return `Reload the page to return to the room. ${error.message}`;
}
