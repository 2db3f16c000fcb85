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
 * Checks, before anything is written, that Redis tells its version and is new enough. BullMQ asks for the version, too, at each connection
 * of a usage worker, which ends if INFO is refused.
 * @throws {Error} naming the version that was found, or INFO if Redis refuses it
 */
export async function requireVersion(redis: Pick<Redis, 'run'>): Promise<void> {
  const info = await redis.run(async (client) => {
    try {
      return await client.info('server');
    } catch (fault) {
      if (fault instanceof ErrorReply) return fault;
      throw fault;
    }
  });
  if (info instanceof ErrorReply) {
    throw new Error('Redis refuses the command INFO, which Partyline needs', { cause: info });
  }
  const version = outdatedVersion(info);
  if (version === undefined) return;
  throw new Error(`Redis has version ${version}, and Partyline needs ${LOWEST_MAJOR}.0 or newer`);
}
