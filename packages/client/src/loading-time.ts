/** Longest time for which a file that audio needs may load, ms: 440 KB, the largest, take 29 s at 120 kbit/s. */
const LOADED_WITHIN_MS = 30_000;

/**
 * Limits the time for which a file loads: browsers wait for one that stalls without end.
 * @param late called with the reason, unless the limit is ended before
 * @returns ends the limit
 */
export function limitLoading(url: string | URL, late: (reason: Error) => void): () => void {
  const timer = setTimeout(
    () => late(new Error(`The browser did not load ${String(url)} in time.`)),
    LOADED_WITHIN_MS,
  );
  return () => clearTimeout(timer);
}
