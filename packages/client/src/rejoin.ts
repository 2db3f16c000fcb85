import { RequestError } from './errors.ts';
import type { WantedRoom } from './phase.ts';

/** Time for which joins in a row may fail in the browser before a room is given up, ms. */
const GIVEN_UP_AFTER_MS = 60_000;

/** Notes that a room has been joined. */
export function noteJoined(wanted: WantedRoom): void {
  wanted.hasJoined = true;
  wanted.failingSinceMs = undefined;
  wanted.resolve();
}

/**
 * Returns true if a join that failed is to be repeated over the next connection. In a room that has been joined before,
 * the browser can play audio: a file may not have loaded because the network was only just coming back.
 */
export function isRepeated(wanted: WantedRoom, error: Error): boolean {
  if (error instanceof RequestError) {
    return error.code === 'timeout' || (wanted.hasJoined && error.retryable);
  }
  wanted.failingSinceMs ??= performance.now();
  return wanted.hasJoined && performance.now() - wanted.failingSinceMs < GIVEN_UP_AFTER_MS;
}

/** Returns the fault of a room that is given up; undefined if it had never been joined, and `join()` fails with the error. */
export function faultOf(wanted: WantedRoom, error: Error): string | undefined {
  if (!wanted.hasJoined) return undefined;
  if (error instanceof RequestError) return error.message;
  return `Reload the page to return to the room. ${error.message}`;
}
