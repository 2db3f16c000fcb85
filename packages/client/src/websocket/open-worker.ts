import { limitLoading } from '../loading-time.ts';

/**
 * Starts a worker, and waits for its first message: `{ ready: true }`, or `{ ready: false, message }`. Later faults are
 * the caller's to watch.
 * @param greeting first message to the worker
 * @throws if its file cannot be loaded in time, its script throws, or the worker answers that it is not ready
 */
export function openWorker(
  url: string | URL,
  greeting: unknown,
  transfer: Transferable[] = [],
): Promise<Worker> {
  return new Promise((resolve, reject) => {
    // A classic worker: builds bundle it into one file without imports.
    const worker = new Worker(url);
    const listening = new AbortController();
    const { signal } = listening;
    const fail = (reason: Error) => {
      listening.abort();
      worker.terminate();
      reject(reason);
    };
    const liftLimit = limitLoading(url, fail);
    signal.addEventListener('abort', liftLimit);
    const onAnswer = ({ data }: MessageEvent<{ ready: boolean; message?: string }>) => {
      if (!data.ready) return fail(new Error(data.message ?? `${String(url)} could not start.`));
      listening.abort();
      resolve(worker);
    };
    worker.addEventListener('message', onAnswer, { signal });
    worker.addEventListener(
      'error',
      // Without a message the file could not be loaded; otherwise its script has thrown.
      ({ message }) =>
        fail(
          new Error(
            message ? `${String(url)}: ${message}` : `The browser could not load ${String(url)}.`,
          ),
        ),
      { signal },
    );
    worker.postMessage(greeting, transfer);
  });
}
