/** Address of a server. */
export type HostAndPort = { host: string; port: number };

/** A Redis over which sentinels watch, as a URL names it. */
export type WatchedRedis = {
  /** At least one. */
  sentinels: HostAndPort[];
  /** Name by which the sentinels know the primary and its replicas. */
  name: string;
  /** TLS, to sentinels and Redis servers alike. */
  isTls: boolean;
  /** Credentials of the Redis servers; empty if there are none. */
  username: string;
  password: string;
  database: number;
};

const SENTINEL_PORT = 26_379;
const MAX_PORT = 65_535;
const URL_PATTERN =
  /^redis(?<tls>s?)\+sentinel:\/\/(?:(?<credentials>[^@/]*)@)?(?<hosts>[^@/]+)\/(?<name>[^/?#\s]+)(?:\/(?<database>\d{1,5}))?$/;
const HOST_PATTERN = /^(?:\[(?<ipv6>[\da-f:.]+)\]|(?<host>[\w.-]+))(?::(?<port>\d{1,5}))?$/i;

/** Returns whether a URL names a Redis by its sentinels. */
export const isSentinelUrl = (url: string) => /^rediss?\+sentinel:/.test(url);

/**
 * Returns whether a URL names one server, `redis://[user:password@]host[:port][/database]`. A `/`, `?` or `#` of a user or
 * password that is not percent-encoded would end the host.
 */
export function isServerUrl(url: string): boolean {
  if (!URL.canParse(url)) return false;
  const { hostname, pathname, hash, username, password } = new URL(url);
  const isEncoded = [username, password].every((word) => decode(word) !== undefined);
  return hostname !== '' && /^\/?\d*$/.test(pathname) && hash === '' && isEncoded;
}

/**
 * Reads `redis+sentinel://[user:password@]host[:port],host[:port]/name[/database]`, or `rediss+sentinel:` for TLS. User and
 * password are percent-encoded, as in any URL.
 * @returns undefined if the URL is not of this form
 */
export function parseSentinelUrl(url: string): WatchedRedis | undefined {
  const { tls, credentials = '', hosts = '', name = '', database = '0' } = partsOf(url);
  const sentinels = hosts.split(',').map(parseHost);
  const [username, ...password] = credentials.split(':').map(decode);
  if (name === '' || username === undefined || password.length > 1) return undefined;
  if (!sentinels.every((sentinel) => sentinel !== undefined)) return undefined;
  if (!password.every((word) => word !== undefined)) return undefined;
  return {
    sentinels,
    name,
    isTls: tls === 's',
    username,
    password: password.join(''),
    database: Number(database),
  };
}

const partsOf = (url: string): Record<string, string | undefined> =>
  URL_PATTERN.exec(url)?.groups ?? {};

function parseHost(text: string): HostAndPort | undefined {
  const { ipv6, host = ipv6, port = SENTINEL_PORT } = HOST_PATTERN.exec(text)?.groups ?? {};
  const number = Number(port);
  return host === undefined || number < 1 || number > MAX_PORT ? undefined : { host, port: number };
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    // A percent sign that encodes nothing.
    return undefined;
  }
}
