import type { ChildProcess } from 'node:child_process';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { setImmediate } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { createWorker } from 'mediasoup';
import type { Worker } from 'mediasoup/types';

const OWN_SESSION = fileURLToPath(new URL('./own-session.sh', import.meta.url));

export type StartOptions = {
  workerBin: string;
  /** Time after which a process that has not started is killed, ms. */
  withinMs: number;
  /** Aborted when the media worker is not needed any more. */
  signal: AbortSignal | undefined;
};

/**
 * Starts the process of a media worker. Signals do not end it: mediasoup would close it on SIGTERM, and Ctrl-C in a terminal would
 * reach it, while clients still have time to leave.
 * @throws {Error} if its program does not run or hangs, a resource for it is missing, or it is not needed any more
 */
export async function startWorkerProcess(options: StartOptions): Promise<Worker> {
  const { workerBin, signal: closing } = options;
  closing?.throwIfAborted();
  // mediasoup passes its environment on.
  process.env['PARTYLINE_MEDIA_WORKER'] = workerBin;
  const signals = (['SIGINT', 'SIGTERM'] as const).map((signal) => ({
    signal,
    ours: process.listeners(signal),
  }));
  const { result: starting, child } = childOf(() =>
    createWorker({ logLevel: 'warn', workerBin: OWN_SESSION }),
  );
  for (const { signal, ours } of signals) {
    const theirs = process.listeners(signal).filter((listener) => !ours.includes(listener));
    for (const listener of theirs) process.removeListener(signal, listener);
  }
  let notSpawned: Error | undefined;
  // Without descriptors a child has no pipes. mediasoup fails at these before it listens for the
  // error.
  child?.once('error', (fault) => (notSpawned = fault));
  try {
    return await beforeDeadline(starting, options);
  } catch (fault) {
    // It may hang, and mediasoup would wait for it for ever.
    if (child?.pid !== undefined) await end(child);
    // The error of a child without a process comes before the next turn of the event loop. `kill`
    // must not be called meanwhile: Node would signal whatever id is in uninitialised memory.
    else await setImmediate();
    throw notSpawned ?? fault;
  }
}

/** Time that a process which was killed may take to end, ms: more if its program is on a disk that does not answer. */
const END_WITHIN_MS = 1000;

/** Kills a process; resolves when it has ended, or does not end. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  await new Promise<void>((resolve) => {
    const deadline = setTimeout(resolve, END_WITHIN_MS);
    child.once('exit', () => {
      clearTimeout(deadline);
      resolve();
    });
    child.kill('SIGKILL');
  });
}

/** Awaits the start of a media worker. @throws {Error} if that takes too long, or it is not needed any more */
async function beforeDeadline(
  starting: Promise<Worker>,
  { withinMs, signal }: StartOptions,
): Promise<Worker> {
  const { promise: givenUp, reject } = Promise.withResolvers<never>();
  const late = () => reject(new Error(`the media worker has not started within ${withinMs} ms`));
  const needless = () => reject(new Error('the media worker is not needed any more'));
  const deadline = setTimeout(late, withinMs);
  signal?.addEventListener('abort', needless);
  try {
    return await Promise.race([starting, givenUp]);
  } finally {
    clearTimeout(deadline);
    signal?.removeEventListener('abort', needless);
  }
}

/** Returns what `start` returns, and the child process that it has spawned: mediasoup does not hand it out. */
function childOf<T>(start: () => T): { result: T; child: ChildProcess | undefined } {
  let child: ChildProcess | undefined;
  const onSpawn = (message: unknown) => {
    child = (message as { process: ChildProcess }).process;
  };
  subscribe('child_process', onSpawn);
  try {
    return { result: start(), child };
  } finally {
    unsubscribe('child_process', onSpawn);
  }
}
