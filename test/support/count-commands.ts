import type { Redis } from '../../src/store/redis.ts';

/**
 * Returns the number of commands that Redis has run, without the pings by which connections are asked for a sign of life. The call
 * counts itself, or the call before it.
 */
export async function countCommands(store: Redis): Promise<number> {
  const stats = await store.run((client) => client.info('commandstats'));
  const calls = stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g);
  return [...calls].reduce(
    (sum, [, command, count]) => sum + (command === 'ping' ? 0 : Number(count)),
    0,
  );
}
