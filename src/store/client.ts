import { isIPv6 } from 'node:net';
import { createClient } from 'redis';
import type { WatchedRedis } from '../../config/sentinel-url.ts';
import type { Timings } from '../../config/timings.ts';
import { SCRIPTS } from './scripts.ts';

/** Maximum number of commands that wait for a Redis that hangs; further ones fail at once, instead of running late. */
export const MAX_QUEUED_COMMANDS = 20_000;

/** Address of a Redis server. */
export type ServerAddress =
  | { url: string }
  | {
      socketPath: string;
      /** Data folder of the gateway's own Redis. */
      dataDir?: string;
      /** Credentials and database; by default none, and the first. */
      login?: Partial<Pick<WatchedRedis, 'username' | 'password' | 'database'>>;
    };
/** Address of a Redis: a server, or sentinels that know the primary. */
export type RedisAddress =
  | ServerAddress
  | {
      watched: WatchedRedis;
      /** Password of the sentinels; empty if they have none. */
      sentinelPassword: string;
    };
export type Client = ReturnType<typeof newRedisClient>;

/** Returns the address of a Redis without its password, for logs. */
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

/** Any client of node-redis. */
type Endable = {
  readonly isOpen: boolean;
  destroy: () => void;
  once: (event: 'connect', listener: () => void) => unknown;
};

/** Ends a client, whatever its state. */
export function endClient(client: Endable): void {
  dropLateSocket(client);
  if (client.isOpen) client.destroy();
}

/**
 * Destroys the socket that a client gets after it was closed: one that is closed while it connects would keep the socket,
 * and the process with it.
 */
export function dropLateSocket(client: Endable): void {
  client.once('connect', () => client.destroy());
}

type ClientOptions = {
  /** Name of the connection at Redis; by default none. */
  name?: string;
  /** Time that Redis has to accept a connection, ms; by default 5 s. */
  connectWithinMs?: number;
  /**
   * Time without a byte in either direction after which a connection is ended, and made again, ms; by default it may be silent for good.
   * A byte that is sent begins it anew. It is for clients to which order does not matter: a Redis that hung runs what it was sent later than
   * what is sent over the new connection.
   */
  silentMs?: number;
  /** True to keep commands while Redis is disconnected, instead of failing them. */
  isPatient?: boolean;
  /** Returns true to try again after `retries` failed attempts to connect; by default always. */
  mayRetry?: (retries: number) => boolean;
};

/**
 * A client that is never connected, which others are made from. node-redis builds a class with all commands for each new set of options,
 * which takes 30 ms of CPU; a duplicate has the class of its original, and options of its own.
 */
const template = createClient({
  scripts: SCRIPTS,
  // To choose another, node-redis looks up the host of the URL, and an IPv6 address with brackets
  // is none.
  maintEndpointType: 'none',
});

/** Creates a client that is not connected yet. */
export function newRedisClient(
  address: ServerAddress,
  { longestReconnectMs, askEveryMs }: Timings['redis'],
  { name, connectWithinMs, silentMs, isPatient = false, mayRetry = () => true }: ClientOptions = {},
) {
  const socket = {
    reconnectStrategy: (retries: number, fault: Error) =>
      mayRetry(retries) ? Math.min(50 * 2 ** retries, longestReconnectMs) : fault,
    ...(connectWithinMs && { connectTimeout: connectWithinMs }),
    ...(silentMs && { socketTimeout: silentMs }),
  };
  return template.duplicate({
    ...('url' in address
      ? { url: address.url, socket }
      : { ...address.login, socket: { ...socket, path: address.socketPath, tls: false } }),
    ...(name && { name }),
    ...(silentMs && { pingInterval: askEveryMs }),
    disableOfflineQueue: !isPatient,
    commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
  });
}
