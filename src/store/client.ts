import { createClient } from 'redis';

const MAX_RECONNECT_DELAY_MS = 1000;

export type RedisAddress = { url: string } | { socketPath: string };
export type Client = ReturnType<typeof newRedisClient>;

const reconnectStrategy = (retries: number) => Math.min(50 * 2 ** retries, MAX_RECONNECT_DELAY_MS);

/** A client that is not connected yet. One that is patient keeps commands while Redis is away, instead of failing them. */
export function newRedisClient(address: RedisAddress, { isPatient = false } = {}) {
  return createClient({
    ...('url' in address
      ? { url: address.url, socket: { reconnectStrategy } }
      : { socket: { path: address.socketPath, tls: false, reconnectStrategy } }),
    disableOfflineQueue: !isPatient,
  });
}
