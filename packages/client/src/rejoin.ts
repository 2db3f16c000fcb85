import { RequestError } from './errors.ts';
import type { WantedRoom } from './phase.ts';

/** Time for which joins in a row may fail in the browser before a room is given up, ms. */
const GIVEN_UP_AFTER_MS = 60_000;
/** Minimum number of such joins: between two of them the network may have been away for longer. */
const GIVEN_UP_AFTER_FAILURES = 4;

/** Notes that a room has been joined. */
export function noteJoined(wanted: WantedRoom): void {
  wanted.hasJoined = true;
  wanted.failing = undefined;
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
  const nowMs = performance.now();
  const failing = (wanted.failing ??= { sinceMs: nowMs, times: 0 });
  failing.times += 1;
  const isEnough =
    failing.times >= GIVEN_UP_AFTER_FAILURES && nowMs - failing.sinceMs >= GIVEN_UP_AFTER_MS;
  return wanted.hasJoined && !isEnough;
}

/** Returns the fault of a room that is given up; undefined if it had never been joined, and `join()` fails with the error. */
export function faultOf(wanted: WantedRoom, error: Error): string | undefined {
  if (!wanted.hasJoined) return undefined;
  if (error instanceof RequestError) return error.message;
  return `Reload the page to return to the room. ${error.message}`;
}
