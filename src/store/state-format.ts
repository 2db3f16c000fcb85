import { VERSION } from '../version.ts';
import { KEY_FINGERPRINTS, NODE_FORMATS, NODES, ownedKeysKey, STATE_FORMAT } from './keys.ts';
import type { Redis } from './redis.ts';
import { whileNodeLingers } from './while-node-lingers.ts';

/**
 * Number of the format of state in Redis and of messages between nodes. It is raised by a version that cannot work beside the
 * one before it; fields that others ignore do not raise it.
 */
export const FORMAT = 2;
/** Lowest format of processes that can read the state of this version, so that going back one version works. */
const READABLE_FROM = 1;

/**
 * Checks that this process can work on the state in Redis, beside the living nodes.
 * @param deadAfterMs silence after which a node is dead
 * @param node this node, if the process is one
 * @throws {Error} if it cannot, with a message for the operator
 */
export async function claimFormat(redis: Redis, deadAfterMs: number, node = ''): Promise<void> {
  const keys = [NODES, NODE_FORMATS, KEY_FINGERPRINTS, STATE_FORMAT, ownedKeysKey(node)];
  const words = [node, String(FORMAT), String(READABLE_FROM), VERSION, String(deadAfterMs)];
  await whileNodeLingers(async (mayBeAhead) => {
    const options = { keys, arguments: [...words, mayBeAhead] };
    const answer = await redis.run((client) => client.claimFormat(options));
    const [obstacle, other, version = ''] = answer as string[];
    if (obstacle === undefined) return undefined;
    if (obstacle === 'state') {
      throw new Error(
        `Redis holds state of Partyline ${version}, which version ${VERSION} cannot read: start that version or a newer one`,
      );
    }
    return `node ${other} runs Partyline ${version}, beside which version ${VERSION} cannot run: stop all nodes of one version before you start the other`;
  }, deadAfterMs);
}
