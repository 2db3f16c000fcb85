/**
 * Calls a function repeatedly, in hidden pages at least once a second. In them, Chromium delays timers that were
 * started by timers, such as intervals, by up to a minute; it does not delay timers that a message handler started.
 * @returns a function that ends the calls
 */
export function repeat(everyMs: number, run: () => void): () => void {
  const { port1, port2 } = new MessageChannel();
  let timer: ReturnType<typeof setTimeout>;
  const wait = () => {
    timer = setTimeout(() => port2.postMessage(undefined), everyMs);
  };
  port1.addEventListener('message', () => {
    wait();
    run();
  });
  port1.start();
  wait();
  return () => {
    clearTimeout(timer);
    port1.close();
  };
}
