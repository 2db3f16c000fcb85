/**
 * Starts a worker, and waits until it says that it is ready.
 * @param greeting its first message
 * @throws when its file cannot be had, or it cannot do its work
 */
export function openWorker(
  url: string | URL,
  greeting: unknown,
  transfer: Transferable[] = [],
): Promise<Worker> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(url);
    const listening = new AbortController();
    const { signal } = listening;
    const fail = (message: string) => {
      listening.abort();
      worker.terminate();
      reject(new Error(message));
    };
    const answered = ({ data }: MessageEvent<{ ready: boolean; message?: string }>) => {
      if (!data.ready) return fail(data.message ?? 'A worker could not start.');
      listening.abort();
      resolve(worker);
    };
    worker.addEventListener('message', answered, { signal });
    worker.addEventListener('error', () => fail(`The browser could not load ${String(url)}.`), {
      signal,
    });
    worker.postMessage(greeting, transfer);
  });
}
