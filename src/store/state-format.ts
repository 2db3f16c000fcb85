import { setTimeout as wait } from 'node:timers/promises';
import { VERSION } from '../version.ts';
import { KEY_FINGERPRINTS, NODE_FORMATS, NODES, nodeTracesKey, STATE_FORMAT } from './keys.ts';
import type { Redis } from './redis.ts';

/**
 * Number of the format of state in Redis and of messages between nodes. It is raised by a version that cannot work beside the
 * one before it; fields that others ignore do not raise it.
 */
export const FORMAT = 2;
/** The lowest format of processes that can take over the state that this version leaves: going back one version works. */
const READABLE_FROM = 1;

const POLL_MS = 200;
/** A heartbeat may be on its way. */
const MARGIN_MS = 1000;

/**
 * Notes the format of a node and of the state, unless a node that lives has another format, or the state is of a version that
 * this one cannot read. Other processes write nothing, so that they can read while Redis takes no writes. Nodes of version 0.1 have a fingerprint of their cluster key, and no format.
 *
 * KEYS: nodes, formats of nodes, fingerprints, format of the state, traces of the node. ARGV: node or '', format,
 * format from which the state is readable, version, silence after which a node is dead, ms.
 * Returns what is in the way: `node`, its id, its format and version; or `state`, its version.
 */
const CLAIM = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, node in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local isAlive = now - redis.call('ZSCORE', KEYS[1], node) < tonumber(ARGV[5])
  local other = redis.call('HGET', KEYS[2], node)
  if not other and redis.call('HEXISTS', KEYS[3], node) == 1 then other = '1 0.1' end
  if isAlive and node ~= ARGV[1] and other and other:match('^%d+') ~= ARGV[2] then
    return { 'node', node, other:match('%S+$') }
  end
end
local readableFrom = redis.call('HGET', KEYS[4], 'readable_from')
if readableFrom and tonumber(readableFrom) > tonumber(ARGV[2]) then
  return { 'state', '', redis.call('HGET', KEYS[4], 'version') }
end
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[4], 'format', ARGV[2], 'readable_from', ARGV[3], 'version', ARGV[4])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. ' ' .. ARGV[4])
  redis.call('SADD', KEYS[5], KEYS[2])
end
return {}
`;

/**
 * Sees to it that this process can work on the state in Redis, beside the nodes that live.
 * @param deadAfterMs silence after which a node is dead
 * @param node this node, if the process is one
 * @throws {Error} if it cannot, in words for the operator
 */
export async function claimFormat(redis: Redis, deadAfterMs: number, node = ''): Promise<void> {
  const options = {
    keys: [NODES, NODE_FORMATS, KEY_FINGERPRINTS, STATE_FORMAT, nodeTracesKey(node)],
    arguments: [node, String(FORMAT), String(READABLE_FROM), VERSION, String(deadAfterMs)],
  };
  // A node that was killed a moment ago seems to live for as long.
  const deadlineMs = performance.now() + deadAfterMs + MARGIN_MS;
  for (;;) {
    const answer = await redis.run((client) => client.eval(CLAIM, options));
    const [obstacle, other, version = ''] = answer as string[];
    if (obstacle === undefined) return;
    if (obstacle === 'state') {
      throw new Error(
        `Redis holds state of Partyline ${version}, which version ${VERSION} cannot read: start that version or a newer one`,
      );
    }
    if (performance.now() > deadlineMs) {
      throw new Error(
        `node ${other} runs Partyline ${version}, beside which version ${VERSION} cannot run: stop all nodes of the one before you start the other`,
      );
    }
    await wait(POLL_MS);
  }
}
