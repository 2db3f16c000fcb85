import { limitLoading } from '../loading-time.ts';

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
    const fail = (reason: Error) => {
      listening.abort();
      worker.terminate();
      reject(reason);
    };
    signal.addEventListener('abort', limitLoading(url, fail));
    const answered = ({ data }: MessageEvent<{ ready: boolean; message?: string }>) => {
      if (!data.ready) return fail(new Error(data.message ?? 'A worker could not start.'));
      listening.abort();
      resolve(worker);
    };
    worker.addEventListener('message', answered, { signal });
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
