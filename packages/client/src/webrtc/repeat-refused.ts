import type { SendRequest } from '../connection.ts';
import { RequestError } from '../errors.ts';
import { retryDelayMs } from '../retry.ts';
import { delay } from './delay.ts';

/**
 * Types of requests that are repeated. mediasoup-client cannot connect a transport twice; without `resume_consumer` a peer stays silent here, and
 * without `restart_ice` a path counts as lost. A mute is not repeated: the next one may have been sent meanwhile.
 */
const REPEATED: ReadonlySet<string> = new Set([
  'connect_transport',
  'resume_consumer',
  'restart_ice',
]);

/** Sends requests, and those of some types again, at growing intervals, while the account is over its budget, until `signal` aborts. */
export const repeatRefused =
  (request: SendRequest, signal: AbortSignal): SendRequest =>
  async (message) => {
    for (let refusals = 0; ; refusals += 1) {
      try {
        return await request(message);
      } catch (error) {
        if (!REPEATED.has(message.type) || !isRefusedForNow(error)) throw error;
        await delay(retryDelayMs(refusals), signal);
        if (signal.aborted) throw error;
      }
    }
  };

/** True if the gateway did not carry out a request, and may do so soon. */
const isRefusedForNow = (error: unknown) =>
  error instanceof RequestError && error.code === 'rate_limited';
