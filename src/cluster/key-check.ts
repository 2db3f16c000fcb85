import { createHash } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import { KEY_FINGERPRINTS, NODE_FORMATS, NODES, ownedKeysKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { whileNodeLingers } from '../store/while-node-lingers.ts';

/**
 * Returns the fingerprint of a key, from which a key of the required length cannot be derived. Nodes of version 0.1, which check
 * no format, make another fingerprint of the same key, so that they refuse to start beside this version.
 */
const fingerprintOf = (clusterKey: string) =>
  createHash('sha256').update(`cluster key since 0.2\n${clusterKey}`).digest('hex').slice(0, 16);

/**
 * Checks that this node has the key of the running nodes: with different keys each would reject the other's
 * messages as forged, and their rooms would be split without notice.
 * @param node this node, which has a heartbeat
 * @param deadAfterMs silence after which a node is dead
 * @throws {Error} if a node that lives has another key
 */
export async function checkClusterKey(
  redis: Redis,
  node: string,
  clusterKey: string,
  deadAfterMs: number,
): Promise<void> {
  const keys = [NODES, KEY_FINGERPRINTS, ownedKeysKey(node)];
  const words = [node, fingerprintOf(clusterKey), String(deadAfterMs)];
  await whileNodeLingers(async (mayBeAhead) => {
    const options = { keys, arguments: [...words, mayBeAhead] };
    const other = await redis.run((client) => client.noteKeyFingerprint(options));
    if (other === '') return undefined;
    return `CLUSTER_KEY is not that of the nodes that run (such as ${other as string}): give all the same, or stop those first`;
  }, deadAfterMs);
}

/** Removes this node's fingerprint and format, because it leaves; its places may be kept for a while. */
export async function forgetClusterKey(
  redis: Redis,
  node: string,
  log: FastifyBaseLogger,
): Promise<void> {
  try {
    await redis.run((client) =>
      client.multi().hDel(KEY_FINGERPRINTS, node).hDel(NODE_FORMATS, node).exec(),
    );
  } catch (fault) {
    log.warn(
      { err: fault },
      'key and format of this node not removed; nodes with others are refused until its heartbeat expires',
    );
  }
}
