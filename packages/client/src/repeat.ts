/**
 * Calls a function again and again, in hidden pages once a second at least. Chromium lets a timer that another timer started wait for up to a
 * minute there, and an interval is such a chain; a timer that a message started is none.
 * @returns what ends that
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
