/** Time without a frame that a listener takes for a pause, ms: more than the machine alone makes of the 20 ms between two. */
const PAUSE_MS = 100;

/** Returns when pauses began, ms since the first frame. @param heardAtMs time of each frame */
export function pausesOf(heardAtMs: number[]): number[] {
  const [firstMs = 0] = heardAtMs;
  return heardAtMs
    .slice(0, -1)
    .filter((atMs, index) => heardAtMs[index + 1]! - atMs > PAUSE_MS)
    .map((atMs) => atMs - firstMs);
}
