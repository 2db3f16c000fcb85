import { isIPv6 } from 'node:net';
import { createClient } from 'redis';
import type { WatchedRedis } from '../../config/sentinel-url.ts';
import type { Timings } from '../../config/timings.ts';
import { SCRIPTS } from './scripts.ts';

/** Commands that wait for a Redis that hangs: further ones fail at once, instead of running late. */
const MAX_QUEUED_COMMANDS = 20_000;

/** Where a Redis server listens. */
export type ServerAddress =
  | { url: string }
  | {
      socketPath: string;
      /** The data folder of an own Redis of the gateway. */
      dataDir?: string;
      /** Credentials and database; by default none, and the first. */
      login?: Partial<Pick<WatchedRedis, 'username' | 'password' | 'database'>>;
    };
/** Where a Redis is: a server, or sentinels that know which server is the primary. */
export type RedisAddress =
  | ServerAddress
  | {
      watched: WatchedRedis;
      /** Password of the sentinels; empty if they have none. */
      sentinelPassword: string;
    };
export type Client = ReturnType<typeof newRedisClient>;

/** Where a Redis is, without its password. */
export function nameOf(address: RedisAddress): string {
  if ('socketPath' in address) return address.socketPath;
  if ('watched' in address) return nameOfWatched(address.watched);
  const { protocol, host } = new URL(address.url);
  return `${protocol}//${host}`;
}

function nameOfWatched({ isTls, sentinels, name }: WatchedRedis): string {
  const hosts = sentinels.map(({ host, port }) => `${isIPv6(host) ? `[${host}]` : host}:${port}`);
  return `redis${isTls ? 's' : ''}+sentinel://${hosts.join(',')}/${name}`;
}

type ClientOptions = {
  /** Keeps commands while Redis is away, instead of failing them. */
  isPatient?: boolean;
  /** Returns whether to try again after `retries` failed attempts to connect; by default always. */
  mayRetry?: (retries: number) => boolean;
};

/** A client that is not connected yet. */
export function newRedisClient(
  address: ServerAddress,
  { longestReconnectMs }: Timings['redis'],
  { isPatient = false, mayRetry = () => true }: ClientOptions = {},
) {
  const reconnectStrategy = (retries: number, fault: Error) =>
    mayRetry(retries) ? Math.min(50 * 2 ** retries, longestReconnectMs) : fault;
  return createClient({
    ...('url' in address
      ? { url: address.url, socket: { reconnectStrategy } }
      : {
          ...address.login,
          socket: { path: address.socketPath, tls: false, reconnectStrategy },
        }),
    disableOfflineQueue: !isPatient,
    commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
    scripts: SCRIPTS,
  });
}
