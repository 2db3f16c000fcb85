import { KEY_PREFIX, type Redis } from '../store/redis.ts';
import { type Change, joined, left, type Place, type PresentPeer } from './events.ts';

/**
 * Who is in which room, and which events wait to be sent, in Redis. Each node holds its own peers; a peer is in a room
 * while any node holds it there, so it does not matter in which order two nodes tell that it went from one to the other,
 * nor whether something is told twice.
 *
 * A place is account\nroom.
 * webhooks:nodes          hash: node → how often it has shown that it lives
 * webhooks:dead           set of nodes whose peers are yet to be taken out
 * webhooks:node:{node}    hash: place\npeer → kind: what it holds
 * webhooks:numbers        hash: node → the number of the last change that it told
 * webhooks:peers:{place}  hash: peer → how many nodes hold it
 * webhooks:outbox:{place} list of the events that wait, as JSON, the oldest first
 * webhooks:waiting        set of the places that have such
 * webhooks:once:{key}     has been told
 * webhooks:dropped        how many events were given up
 */
const PREFIX = `${KEY_PREFIX}webhooks:`;
const PEERS_AT_ONCE = 100;
/** A place is published here when it has something to send. */
export const WEBHOOK_NEWS = `${PREFIX}news`;

/** A change that a node tells, numbered so that one which is told again is known again. */
export type NumberedChange = { number: number; change: Change };

/** Its number (0 if telling it again does no harm), what to do, the place; then peer, kind, event of the peer, event of the room; or key, expiry in ms, event. */
type WrittenChange = (string | number)[];

/** ARGV: node, JSON of {@link WrittenChange}s, how many were dropped before them, 1 if the node is dead. Returns 0 if the node is not known. */
const TELL = `
local node = KEYS[1] .. 'node:' .. ARGV[1]
if ARGV[4] == '0' and redis.call('HEXISTS', KEYS[1] .. 'nodes', ARGV[1]) == 0 then return 0 end
local function push(place, event)
  redis.call('RPUSH', KEYS[1] .. 'outbox:' .. place, event)
  redis.call('SADD', KEYS[1] .. 'waiting', place)
  redis.call('PUBLISH', KEYS[1] .. 'news', place)
end
local function join(place, peer, kind, peerEvent, roomEvent)
  if redis.call('HSETNX', node, place .. '\\n' .. peer, kind) == 0 then return end
  local peers = KEYS[1] .. 'peers:' .. place
  if redis.call('EXISTS', peers) == 0 then push(place, roomEvent) end
  if redis.call('HINCRBY', peers, peer, 1) == 1 then push(place, peerEvent) end
end
local function leave(place, peer, kind, peerEvent, roomEvent)
  if redis.call('HDEL', node, place .. '\\n' .. peer) == 0 then return end
  local peers = KEYS[1] .. 'peers:' .. place
  if redis.call('HINCRBY', peers, peer, -1) > 0 then return end
  redis.call('HDEL', peers, peer)
  push(place, peerEvent)
  if redis.call('EXISTS', peers) == 0 then push(place, roomEvent) end
end
local function once(place, key, keptUntilMs, event)
  if redis.call('SET', KEYS[1] .. 'once:' .. key, '1', 'NX', 'PXAT', keptUntilMs) then push(place, event) end
end
local operations = { join = join, leave = leave, once = once }
local last = tonumber(redis.call('HGET', KEYS[1] .. 'numbers', ARGV[1]) or '0')
for _, change in ipairs(cjson.decode(ARGV[2])) do
  if change[1] == 0 or change[1] > last then operations[change[2]](unpack(change, 3)) end
  last = math.max(last, change[1])
end
redis.call('HSET', KEYS[1] .. 'numbers', ARGV[1], last)
if ARGV[4] == '0' then redis.call('HINCRBY', KEYS[1] .. 'nodes', ARGV[1], 1) end
if ARGV[3] ~= '0' then redis.call('INCRBY', KEYS[1] .. 'dropped', ARGV[3]) end
return 1
`;

/** ARGV: node, how often it had shown that it lives; if it has done so since, it is not buried. */
const BURY = `
if redis.call('HGET', KEYS[1] .. 'nodes', ARGV[1]) ~= ARGV[2] then return end
redis.call('HDEL', KEYS[1] .. 'nodes', ARGV[1])
redis.call('SADD', KEYS[1] .. 'dead', ARGV[1])
`;

/** ARGV: place, the event that is done with, 1 if it was given up. Returns how many wait yet, -1 if it was not the first. */
const REMOVE = `
local outbox = KEYS[1] .. 'outbox:' .. ARGV[1]
if redis.call('LINDEX', outbox, 0) ~= ARGV[2] then return -1 end
redis.call('LPOP', outbox)
if ARGV[3] == '1' then redis.call('INCR', KEYS[1] .. 'dropped') end
local waiting = redis.call('LLEN', outbox)
if waiting == 0 then redis.call('SREM', KEYS[1] .. 'waiting', ARGV[1]) end
return waiting
`;

export class WebhookStore {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    this.#redis = redis;
  }

  /** Makes a node known, which may tell changes then. */
  async register(node: string): Promise<void> {
    await this.#redis.run((client) => client.hSet(`${PREFIX}nodes`, node, 0));
  }

  /**
   * Writes what a node tells, if anything, and the events that follow of it, and that it lives; telling it again changes nothing.
   * @param dropped how many changes were given up before these
   * @returns whether the node is known; if not, nothing was written
   */
  async tell(node: string, changes: NumberedChange[], dropped: number): Promise<boolean> {
    return (await this.#tell(node, changes, dropped, false)) === 1;
  }

  /** A node that has a new name tells who is with it. */
  async tellAgain(node: string, peers: PresentPeer[]): Promise<void> {
    for (let at = 0; at < peers.length; at += PEERS_AT_ONCE) {
      const changes = peers.slice(at, at + PEERS_AT_ONCE).map(joined);
      await this.#tell(node, changes.map(unnumbered), 0, false);
    }
  }

  /** The nodes, and how often each has shown that it lives. */
  async readNodes(): Promise<Map<string, string>> {
    const nodes = await this.#redis.run((client) => client.hGetAll(`${PREFIX}nodes`));
    return new Map(Object.entries(nodes));
  }

  /** A node that has shown this often that it lives, and not once more, has its peers taken out. */
  async bury(node: string, beats: string): Promise<void> {
    await this.#eval(BURY, [node, beats]);
  }

  /** A node goes away, or by another name from now on. */
  async retire(node: string): Promise<void> {
    await this.#redis.run((client) =>
      client.multi().sAdd(`${PREFIX}dead`, node).hDel(`${PREFIX}nodes`, node).exec(),
    );
  }

  /** Takes the peers of dead nodes out. */
  async takeOutDead(): Promise<void> {
    const dead = await this.#redis.run((client) => client.sMembers(`${PREFIX}dead`));
    for (const node of dead) {
      const peers = await this.#listPeers(node);
      for (let at = 0; at < peers.length; at += PEERS_AT_ONCE) {
        const changes = peers.slice(at, at + PEERS_AT_ONCE).map((peer) => left(peer, 'closed'));
        await this.#tell(node, changes.map(unnumbered), 0, true);
      }
      await this.#redis.run((client) =>
        client.multi().sRem(`${PREFIX}dead`, node).hDel(`${PREFIX}numbers`, node).exec(),
      );
    }
  }

  /** The oldest event of a place, as JSON. */
  async head(place: Place): Promise<string | undefined> {
    const event = await this.#redis.run((client) =>
      client.lIndex(`${PREFIX}outbox:${keyOf(place)}`, 0),
    );
    return event ?? undefined;
  }

  /**
   * Takes the oldest event of a place away, when it is done with.
   * @returns how many wait yet; undefined if it was gone already
   */
  async remove(place: Place, event: string, isDropped: boolean): Promise<number | undefined> {
    const waiting = await this.#eval(REMOVE, [keyOf(place), event, isDropped ? '1' : '0']);
    return waiting === -1 ? undefined : (waiting as number);
  }

  /** The places that have events which wait. */
  async listWaiting(): Promise<Place[]> {
    const places = await this.#redis.run((client) => client.sMembers(`${PREFIX}waiting`));
    return places.map(placeOf);
  }

  /** How many places have events which wait, and how many events were given up. */
  async count(): Promise<{ waiting: number; dropped: number }> {
    return this.#redis.run(async (client) => ({
      waiting: await client.sCard(`${PREFIX}waiting`),
      dropped: Number(await client.get(`${PREFIX}dropped`)),
    }));
  }

  async #listPeers(node: string): Promise<PresentPeer[]> {
    const held = await this.#redis.run((client) => client.hGetAll(`${PREFIX}node:${node}`));
    return Object.entries(held).map(([key, kind]) => {
      const [accountId, room = '', peer = ''] = key.split('\n');
      return { accountId: Number(accountId), room, peer, kind: kind as PresentPeer['kind'] };
    });
  }

  #tell(node: string, changes: NumberedChange[], dropped: number, isDead: boolean) {
    const written = JSON.stringify(changes.map(writtenChange));
    return this.#eval(TELL, [node, written, String(dropped), isDead ? '1' : '0']);
  }

  #eval(script: string, scriptArguments: string[]): Promise<unknown> {
    return this.#redis.run((client) =>
      client.eval(script, { keys: [PREFIX], arguments: scriptArguments }),
    );
  }
}

/** How a place is named in the store; names have no line breaks. */
export const keyOf = ({ accountId, room }: Place) => `${accountId}\n${room}`;

/** The place that is named so in the store. */
export function placeOf(key: string): Place {
  const [accountId, room = ''] = key.split('\n');
  return { accountId: Number(accountId), room };
}

const unnumbered = (change: Change): NumberedChange => ({ number: 0, change });

function writtenChange({ number, change }: NumberedChange): WrittenChange {
  const head = [number, change.op, keyOf(change)];
  if (change.op === 'once') {
    return [...head, change.key, String(change.keptUntilMs), JSON.stringify(change.event)];
  }
  const { peer, kind, peerEvent, roomEvent } = change;
  return [...head, peer, kind, JSON.stringify(peerEvent), JSON.stringify(roomEvent)];
}
