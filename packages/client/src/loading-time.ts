/** Maximum loading time of a file that audio needs, ms: the largest one, 440 KB, takes 29 s at 120 kbit/s. */
const LOADED_WITHIN_MS = 30_000;

/**
 * Limits the loading time of a file: browsers wait without end for a file that stalls.
 * @param late called with the reason, unless the limit is lifted before
 * @returns a function that lifts the limit
 */
export function limitLoading(url: string | URL, late: (reason: Error) => void): () => void {
  const timer = setTimeout(
    () => late(new Error(`The browser did not load ${String(url)} in time.`)),
    LOADED_WITHIN_MS,
  );
  return () => clearTimeout(timer);
}
