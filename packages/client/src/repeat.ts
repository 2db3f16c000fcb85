/**
 * Calls a function repeatedly, in hidden pages at least once a second. Chromium delays a timer that another
 * timer started by up to a minute there, and an interval is such a chain; a timer that a message started is
 * none.
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
