/**
 * Calls `onOver` once a time limit for an answer of another process is over. Timers run before sockets are read: so that an answer counts
 * that came while this process stood still, the time passes in two halves, of which a standstill uses up one at most.
 * @returns a function that ends the limit
 */
export function limitTime(limitMs: number, onOver: () => void): () => void {
  let due: NodeJS.Immediate | undefined;
  let timer = setTimeout(() => {
    timer = setTimeout(() => (due = setImmediate(onOver)), limitMs / 2);
  }, limitMs / 2);
  return () => {
    clearTimeout(timer);
    clearImmediate(due);
  };
}
