import { createClient } from 'redis';
import { KEY_PREFIX, NODES, ownedKeysKey } from '../../src/store/keys.ts';

/** Pattern and purpose of a kind of keys, and the reason for which such keys may stay when no peer is connected. */
type KeyKind = { pattern: RegExp; name: string; stays: string | undefined };

/** Kinds of keys; the first match counts. */
const KINDS: KeyKind[] = [
  kind('accounts', /^(account[:s]|key:|token|cluster_key)/, 'accounts, their keys, the cluster’s'),
  kind('usage:months', /^usage:months:/, 'kept indefinitely'),
  kind('usage:records', /^usage:records:/, 'kept for USAGE_KEEP_DAYS'),
  kind('usage:open:*:minute', /^usage:open:\d+:/, 'expire after 48 h: a node may write late'),
  kind('usage:open', /^usage:open/, 'until a usage worker has closed the minutes'),
  kind('bullmq', /^bullmq:/, 'the queues themselves; they do not grow'),
  kind('limit', /^limit:/, 'expire after a minute'),
  kind('nodes', /^nodes$/, 'one, with a member for each living node'),
  kind('node_key_fingerprints', /^node_key_fingerprints$/, 'a field for each living node'),
  kind('node_formats', /^node_formats$/, 'a field for each living node'),
  kind('format', /^format$/, 'one, for all state'),
  kind('usage:workers', /^usage:worker/, 'an entry for each living usage worker'),
  kind('webhooks:workers', /^webhooks:workers$/, 'a field for each living worker'),
  kind('node:*:traces', /^node:/),
  kind('room', /^room:/),
  kind('ccu', /^ccu:/),
  kind('webhooks', /^webhooks:/),
];

/** Answer of TTL for a key that does not expire. */
const NEVER = -1;

/** Keys that Redis holds. */
export type RedisContents = {
  usedBytes: number;
  /** Keys by kind. */
  counts: Record<string, number>;
  /** Keys that should not exist when no peer is connected, and do not expire. */
  left: string[];
  nodes: number;
  /** Channels with subscribers. */
  channels: string[];
};

/** @throws {Error} if Redis is disconnected */
export async function readRedis(url: string): Promise<RedisContents> {
  const client = createClient({ url, socket: { reconnectStrategy: false, connectTimeout: 2000 } });
  // The calls below throw every error as well.
  client.on('error', () => {});
  await client.connect();
  try {
    const living = await client.zRange(NODES, 0, -1);
    const ofLiving = new Set(living.map((node) => ownedKeysKey(node)));
    const counts: Record<string, number> = {};
    const left: string[] = [];
    for await (const keys of client.scanIterator({ COUNT: 1000 })) {
      for (const key of keys) {
        const { name, stays } = kindOf(key);
        counts[name] = (counts[name] ?? 0) + 1;
        const mayStay = stays !== undefined || ofLiving.has(key);
        if (!mayStay && (await client.ttl(key)) === NEVER) left.push(key);
      }
    }
    const memory = await client.info('memory');
    return {
      usedBytes: Number(/used_memory:(\d+)/.exec(memory)?.[1]),
      counts,
      left,
      nodes: living.length,
      channels: await client.pubSubChannels(),
    };
  } finally {
    client.destroy();
  }
}

/** Returns the reason for which keys of a kind may stay. */
export const staysBecause = (name: string) => KINDS.find((of) => of.name === name)?.stays;

function kindOf(key: string): KeyKind {
  const known = KINDS.find(({ pattern }) => pattern.test(key.slice(KEY_PREFIX.length)));
  return known ?? { pattern: /./, name: 'unknown', stays: undefined };
}

function kind(name: string, pattern: RegExp, stays?: string): KeyKind {
  return { name, pattern, stays };
}
