import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { LeaseRenewals } from '../../../src/usage/lease-renewals.ts';

const { renewEveryMs, retryEveryMs } = DEFAULT_TIMINGS.leases;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A Redis that the test disconnects, reconnects and lets load its data, and the number of renewals. */
function open() {
  const redis = { isReady: true, isLoading: false, reconnect: () => {} };
  const renew = vi.fn<() => void>();
  const renewals = new LeaseRenewals(
    {
      get isReady() {
        return redis.isReady;
      },
      isAvailable: () => Promise.resolve(redis.isReady && !redis.isLoading),
      onReconnect: (listener) => {
        redis.reconnect = listener;
        return () => (redis.reconnect = () => {});
      },
    },
    renew,
    DEFAULT_TIMINGS.leases,
  );
  return { redis, renew, renewals };
}

test('leases are renewed at the interval, until close()', async () => {
  const { renew, renewals } = open();
  await vi.advanceTimersByTimeAsync(2 * renewEveryMs);
  expect(renew).toHaveBeenCalledTimes(2);
  renewals.close();
  await vi.advanceTimersByTimeAsync(2 * renewEveryMs);
  expect(renew).toHaveBeenCalledTimes(2);
});

test('after a reconnect leases are renewed at once; by a Redis that loads its data, as soon as it takes writes', async () => {
  const { redis, renew, renewals } = open();
  redis.reconnect();
  await vi.advanceTimersByTimeAsync(0);
  expect(renew).toHaveBeenCalledTimes(1);
  redis.isLoading = true;
  redis.reconnect();
  await vi.advanceTimersByTimeAsync(5 * retryEveryMs);
  expect(renew).toHaveBeenCalledTimes(1);
  redis.isLoading = false;
  await vi.advanceTimersByTimeAsync(retryEveryMs);
  expect(renew).toHaveBeenCalledTimes(2);
  renewals.close();
});

test('a Redis that disconnects while it loads its data is not asked again before the next reconnect', async () => {
  const { redis, renew, renewals } = open();
  redis.isLoading = true;
  redis.reconnect();
  await vi.advanceTimersByTimeAsync(0);
  redis.isReady = false;
  await vi.advanceTimersByTimeAsync(retryEveryMs);
  redis.isReady = true;
  redis.isLoading = false;
  await vi.advanceTimersByTimeAsync(5 * retryEveryMs);
  expect(renew).not.toHaveBeenCalled();
  renewals.close();
});

test('close() ends the wait for a Redis that loads its data', async () => {
  const { redis, renew, renewals } = open();
  redis.isLoading = true;
  redis.reconnect();
  await vi.advanceTimersByTimeAsync(0);
  renewals.close();
  redis.isLoading = false;
  await vi.advanceTimersByTimeAsync(5 * retryEveryMs);
  expect(renew).not.toHaveBeenCalled();
});
