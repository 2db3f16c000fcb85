import { setTimeout as wait } from 'node:timers/promises';
import { ErrorReply } from 'redis';
import type { Timings } from '../../config/timings.ts';
import { type Client, endClient } from './client.ts';

/** Errors that waiting does not fix. */
const REFUSALS = /^(NOAUTH|WRONGPASS|NOPERM|DENIED) /;
const POLL_MS = 100;

/** Progress of Redis in loading its data. */
type Loading = { bytes: number; percent: number };

export type RedisWait = {
  timings: Timings['redis'];
  /** Called every few seconds while Redis loads its data. */
  onLoading: (percent: number) => void;
  /** Aborts the wait. */
  abort?: AbortSignal | undefined;
};

/**
 * Connects a client, and waits for as long as Redis makes progress in loading its data.
 * @throws {Error} if Redis cannot be reached, refuses the client, or makes no progress in time, or if the wait is aborted; the client
 * has then been destroyed
 */
export async function connectClient(client: Client, waiting: RedisWait): Promise<void> {
  let isAccepted = false;
  client.once('connect', () => (isAccepted = true));
  try {
    await within(client.connect(), waiting, () => isAccepted);
    await untilLoaded(client, waiting);
  } catch (fault) {
    // The client would keep trying to connect.
    endClient(client);
    throw fault;
  }
}

/**
 * Returns the result of `work`.
 * @param isAccepted returns true once Redis has accepted a connection
 * @throws {Error} if `work` fails, takes longer than `timings.startWithinMs`, or is aborted
 */
export async function within<T>(
  work: Promise<T>,
  { timings, abort }: Pick<RedisWait, 'timings' | 'abort'>,
  isAccepted = () => true,
): Promise<T> {
  const { startWithinMs } = timings;
  const over = new AbortController();
  const signal = abort ? AbortSignal.any([abort, over.signal]) : over.signal;
  const late = wait(startWithinMs, undefined, { signal }).then(() => {
    throw new Error(
      isAccepted()
        ? `it accepts connections, but did not answer within ${startWithinMs} ms`
        : `no connection within ${startWithinMs} ms: its name is not resolved, a firewall drops the packets, or the TLS handshake is not answered`,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    over.abort();
    // The promise that lost the race may still reject.
    late.catch(() => {});
    work.catch(() => {});
  }
}

async function untilLoaded(
  client: Client,
  { timings, onLoading, abort }: RedisWait,
): Promise<void> {
  const { startWithinMs, reportLoadingMs } = timings;
  let before: Loading | undefined;
  let progressAtMs = performance.now();
  let reportedAtMs = progressAtMs;
  for (;;) {
    const loading = await readLoading(client, timings.commandTimeoutMs);
    if (loading === 'done') return;
    const nowMs = performance.now();
    if (loading !== 'unknown' && loading.bytes !== before?.bytes) {
      before = loading;
      progressAtMs = nowMs;
    }
    if (nowMs - progressAtMs > startWithinMs) {
      const state = before
        ? `has loaded ${before.percent} % of its data`
        : 'does not report its progress';
      throw new Error(`it ${state}, and made no progress for ${startWithinMs} ms`);
    }
    if (before && nowMs - reportedAtMs >= reportLoadingMs) {
      onLoading(before.percent);
      reportedAtMs = nowMs;
    }
    await wait(POLL_MS, undefined, { signal: abort });
  }
}

/**
 * Returns the progress of Redis; `done` after any answer except LOADING (commands report other faults), `unknown` if Redis does not answer.
 * @throws {ErrorReply} if Redis refuses the client
 */
async function readLoading(
  client: Client,
  timeoutMs: number,
): Promise<'done' | 'unknown' | Loading> {
  const late = Promise.withResolvers<'late'>();
  const timer = setTimeout(() => late.resolve('late'), timeoutMs);
  try {
    return await askLoading(client, late.promise);
  } finally {
    // The timer would keep an otherwise idle process alive.
    clearTimeout(timer);
  }
}

async function askLoading(
  client: Client,
  late: Promise<'late'>,
): Promise<'done' | 'unknown' | Loading> {
  try {
    const answer = await Promise.race([client.ping(), late]);
    return answer === 'late' ? 'unknown' : 'done';
  } catch (fault) {
    // A connection that broke comes back by itself.
    if (!(fault instanceof ErrorReply)) return 'unknown';
    if (REFUSALS.test(fault.message)) throw fault;
    if (!fault.message.startsWith('LOADING')) return 'done';
  }
  const info = await Promise.race([client.info('persistence').catch(() => ''), late]);
  const [, bytes] = /^loading_loaded_bytes:(\d+)/m.exec(info) ?? [];
  const [, percent] = /^loading_loaded_perc:([\d.]+)/m.exec(info) ?? [];
  return bytes === undefined ? 'unknown' : { bytes: Number(bytes), percent: Number(percent) };
}
