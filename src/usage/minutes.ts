import { KEY_PREFIX, type Redis } from '../store/redis.ts';

/** The key under which an account's peer-seconds of a calendar month (UTC) are counted. */
const monthKey = (accountId: number, now: Date) =>
  `${KEY_PREFIX}usage:${accountId}:${now.toISOString().slice(0, 7)}`;

/** Peer-minutes that an account has used in the month of `now`. */
export async function readMonthMinutes(
  redis: Redis,
  accountId: number,
  now: Date,
): Promise<number> {
  const peerSeconds = await redis.run((client) => client.get(monthKey(accountId, now)));
  return Number(peerSeconds ?? 0) / 60;
}
