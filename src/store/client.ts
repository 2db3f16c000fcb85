import { createClient } from 'redis';
import type { Timings } from '../../config/timings.ts';

/** Commands that wait for a Redis that hangs: further ones fail at once, instead of running late. */
const MAX_QUEUED_COMMANDS = 20_000;

export type RedisAddress =
  | { url: string }
  | {
      socketPath: string;
      /** The data folder of an own Redis of the gateway. */
      dataDir?: string;
    };
export type Client = ReturnType<typeof newRedisClient>;

/** Where a Redis is, without its password. */
export function nameOf(address: RedisAddress): string {
  if ('socketPath' in address) return address.socketPath;
  const { protocol, host } = new URL(address.url);
  return `${protocol}//${host}`;
}

type ClientOptions = {
  /** Keeps commands while Redis is away, instead of failing them. */
  isPatient?: boolean;
  /** Returns whether to try again after `retries` failed attempts to connect; by default always. */
  mayRetry?: (retries: number) => boolean;
};

/** A client that is not connected yet. */
export function newRedisClient(
  address: RedisAddress,
  { longestReconnectMs }: Timings['redis'],
  { isPatient = false, mayRetry = () => true }: ClientOptions = {},
) {
  const reconnectStrategy = (retries: number, fault: Error) =>
    mayRetry(retries) ? Math.min(50 * 2 ** retries, longestReconnectMs) : fault;
  return createClient({
    ...('url' in address
      ? { url: address.url, socket: { reconnectStrategy } }
      : { socket: { path: address.socketPath, tls: false, reconnectStrategy } }),
    disableOfflineQueue: !isPatient,
    commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
  });
}
