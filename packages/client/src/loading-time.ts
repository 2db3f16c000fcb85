/** Maximum loading time of a file that audio needs, ms: the largest one, 440 KB, takes 29 s at 120 kbit/s. */
const LOADED_WITHIN_MS = 30_000;
/** Maximum loading time of a file that was late before, ms. A network on which it takes longer could not carry the audio either. */
const LATE_LOADED_WITHIN_MS = 60_000;

/** Addresses of the files that were late. */
const late = new Set<string>();

/**
 * Limits the loading time of a file: browsers wait without end for a file that stalls. A file that was late is loaded from its beginning by the next
 * attempt, which therefore has more time.
 * @param onLate called with the reason, unless the limit is lifted before
 * @returns a function that lifts the limit
 */
export function limitLoading(url: string | URL, onLate: (reason: Error) => void): () => void {
  const address = String(url);
  const withinMs = late.has(address) ? LATE_LOADED_WITHIN_MS : LOADED_WITHIN_MS;
  const timer = setTimeout(() => {
    late.add(address);
    onLate(new Error(`The browser did not load ${address} in time.`));
  }, withinMs);
  return () => clearTimeout(timer);
}
