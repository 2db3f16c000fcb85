/** Longest wait for a context to run, ms: without a click it may neither run nor say so. */
const RESUME_MS = 500;

/**
 * Starts a context that was made without a click, or that the browser has stopped.
 * @param resume resumes it
 * @returns false if it waits for a click, or for the end of a phone call
 */
export async function runsSoon(resume: () => Promise<unknown>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), RESUME_MS);
  });
  const isRunning = await Promise.race([
    resume().then(
      () => true,
      () => false, // as in a phone call
    ),
    late,
  ]);
  clearTimeout(timer);
  return isRunning;
}
