import { setTimeout as wait } from 'node:timers/promises';
import { VERSION } from '../version.ts';
import { KEY_FINGERPRINTS, NODE_FORMATS, NODES, ownedKeysKey, STATE_FORMAT } from './keys.ts';
import type { Redis } from './redis.ts';

/**
 * Number of the format of state in Redis and of messages between nodes. It is raised by a version that cannot work beside the
 * one before it; fields that others ignore do not raise it.
 */
export const FORMAT = 2;
/** Lowest format of processes that can read the state of this version, so that going back one version works. */
const READABLE_FROM = 1;

const POLL_MS = 200;
/** A heartbeat may be on its way. */
const MARGIN_MS = 1000;

/**
 * Checks that this process can work on the state in Redis, beside the living nodes.
 * @param deadAfterMs silence after which a node is dead
 * @param node this node, if the process is one
 * @throws {Error} if it cannot, with a message for the operator
 */
export async function claimFormat(redis: Redis, deadAfterMs: number, node = ''): Promise<void> {
  const options = {
    keys: [NODES, NODE_FORMATS, KEY_FINGERPRINTS, STATE_FORMAT, ownedKeysKey(node)],
    arguments: [node, String(FORMAT), String(READABLE_FROM), VERSION, String(deadAfterMs)],
  };
  // A node that was killed a moment ago seems to live until then.
  const deadlineMs = performance.now() + deadAfterMs + MARGIN_MS;
  for (;;) {
    const answer = await redis.run((client) => client.claimFormat(options));
    const [obstacle, other, version = ''] = answer as string[];
    if (obstacle === undefined) return;
    if (obstacle === 'state') {
      throw new Error(
        `Redis holds state of Partyline ${version}, which version ${VERSION} cannot read: start that version or a newer one`,
      );
    }
    if (performance.now() > deadlineMs) {
      throw new Error(
        `node ${other} runs Partyline ${version}, beside which version ${VERSION} cannot run: stop all nodes of one version before you start the other`,
      );
    }
    await wait(POLL_MS);
  }
}
