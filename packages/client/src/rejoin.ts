import { RequestError } from './errors.ts';
import type { WantedRoom } from './phase.ts';
import type { Pause } from './reconnector.ts';

/** Time from the first of several joins in a row that failed in the browser to the one after which the room is given up, without outages, ms. */
const GIVEN_UP_AFTER_MS = 60_000;

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
  const { sinceMs } = (wanted.failing ??= { sinceMs: nowMs });
  return wanted.hasJoined && nowMs - sinceMs < GIVEN_UP_AFTER_MS;
}

/** Notes that a connection was lost. The pause before the next attempt is no outage. */
export function noteLost({ failing }: WantedRoom, { retryAt }: Pause): void {
  if (failing) failing.awaySinceMs ??= performance.now() + retryAt - Date.now();
}

/** Notes that there is a connection again: an outage does not count as time in which joins failed. */
export function noteBack({ failing }: WantedRoom): void {
  if (failing?.awaySinceMs === undefined) return;
  failing.sinceMs += Math.max(0, performance.now() - failing.awaySinceMs);
  failing.awaySinceMs = undefined;
}

/** Returns the fault of a room that is given up; undefined if it had never been joined, and `join()` fails with the error. */
export function faultOf(wanted: WantedRoom, error: Error): string | undefined {
  if (!wanted.hasJoined) return undefined;
  if (error instanceof RequestError) return error.message;
  return `Reload the page to return to the room. ${error.message}`;
}
