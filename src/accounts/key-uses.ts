import type { Client } from '../store/client.ts';
import { apiKeyRecordKey } from '../store/keys.ts';

/** `last_used_at` is no more exact than this, so that using a key is hardly ever a write. */
const LAST_USED_RESOLUTION_MS = 60_000;
/** Maximum number of keys whose last use is remembered; the use of another one is looked up in Redis. */
const MAX_REMEMBERED = 10_000;

/**
 * Writes when a key was used, unless that was written within the last minute.
 * @param stored time of the last use as it is in Redis, ISO 8601
 * @param wallMs time of Redis, ms since 1970: clocks of machines may differ
 * @returns the age of the use that is in Redis now, ms
 */
export async function noteKeyUse(
  client: Client,
  hash: string,
  stored: string | null | undefined,
  wallMs: number,
): Promise<number> {
  const ageMs = wallMs - Date.parse(stored ?? '');
  // A time in the future was written with a wrong clock.
  if (ageMs >= 0 && ageMs < LAST_USED_RESOLUTION_MS) return ageMs;
  const options = { keys: [apiKeyRecordKey(hash)], arguments: [new Date(wallMs).toISOString()] };
  await client.noteKeyUsed(options);
  return 0;
}

/** Uses of keys by their tokens and invitations, which cost Redis no command within a minute of the last one. */
export class KeyUses {
  /** Times of uses, ms of the monotonic clock, by the hash of the key; the oldest first. */
  readonly #usedAtMs = new Map<string, number>();

  /** Notes that a token or an invitation of a key was used. */
  async note(client: Client, hash: string): Promise<void> {
    const nowMs = performance.now();
    if (nowMs - (this.#usedAtMs.get(hash) ?? -Infinity) < LAST_USED_RESOLUTION_MS) return;
    const [stored, [seconds]] = await Promise.all([
      client.hGet(apiKeyRecordKey(hash), 'last_used_at'),
      client.time(),
    ]);
    const ageMs = await noteKeyUse(client, hash, stored, Number(seconds) * 1000);
    this.#usedAtMs.delete(hash);
    this.#usedAtMs.set(hash, nowMs - ageMs);
    const [oldest] = this.#usedAtMs.keys();
    if (this.#usedAtMs.size > MAX_REMEMBERED && oldest !== undefined) this.#usedAtMs.delete(oldest);
  }
}
