import { ErrorReply } from 'redis';
import type { Redis } from './redis.ts';

/**
 * Lowest major version of Redis that has all commands of the gateway and its libraries, and keeps its append-only file in a folder of its
 * own (`appendonlydir`).
 */
const LOWEST_MAJOR = 7;

/**
 * Returns the version in the answer of `INFO server`, if it is too old; pure.
 * Valkey names the version of Redis that it is compatible with, 7.2.4.
 */
export function outdatedVersion(info: string): string | undefined {
  const [, version, major] = /^redis_version:((\d+)\S*)/m.exec(info) ?? [];
  return Number(major) < LOWEST_MAJOR ? version : undefined;
}

/**
 * Checks that Redis is new enough, before anything is written. A Redis that does not permit INFO is taken as it is.
 * @throws {Error} naming the version that was found
 */
export async function requireVersion(redis: Redis): Promise<void> {
  const info = await redis.run(async (client) => {
    try {
      return await client.info('server');
    } catch (fault) {
      if (fault instanceof ErrorReply) return '';
      throw fault;
    }
  });
  const version = outdatedVersion(info);
  if (version === undefined) return;
  throw new Error(`Redis has version ${version}, and Partyline needs ${LOWEST_MAJOR}.0 or newer`);
}
