import { createHash } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { FastifyBaseLogger } from 'fastify';
import { KEY_FINGERPRINTS, NODE_FORMATS, NODES, ownedKeysKey } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';

const POLL_MS = 200;
/** A heartbeat may be on its way. */
const MARGIN_MS = 1000;

/**
 * The fingerprint of a key, from which the key cannot be found if it is as long as it should be. Nodes of version 0.1, which ask
 * for no format, make another one of the same key: beside this version they end at their start.
 */
const fingerprintOf = (clusterKey: string) =>
  createHash('sha256').update(`cluster key since 0.2\n${clusterKey}`).digest('hex').slice(0, 16);

/**
 * Sees to it that this node has the key of those that run: with another one each would take the other's messages for forged
 * ones, and their rooms would be split in silence.
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
  const options = {
    keys: [NODES, KEY_FINGERPRINTS, ownedKeysKey(node)],
    arguments: [node, fingerprintOf(clusterKey), String(deadAfterMs)],
  };
  // One that was killed a moment ago seems to live for as long.
  const deadlineMs = performance.now() + deadAfterMs + MARGIN_MS;
  for (;;) {
    const other = await redis.run((client) => client.noteKeyFingerprint(options));
    if (other === '') return;
    if (performance.now() > deadlineMs) {
      throw new Error(
        `CLUSTER_KEY is not that of the nodes that run (such as ${other as string}): give all the same, or stop those first`,
      );
    }
    await wait(POLL_MS);
  }
}

/** Takes this node's fingerprint and format away: it goes, though its places may be kept for a while. */
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
      'a node with another CLUSTER_KEY or format is refused until this one is dead',
    );
  }
}
