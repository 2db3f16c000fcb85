import { WEBHOOK_PREFIX } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { type Change, joined, left, type RoomKey, type PresentPeer } from './events.ts';

/**
 * Peers of each room, and events that wait to be sent, in Redis. Each node holds its own peers; a peer is in a room
 * while any node holds it there, so it does not matter in which order two nodes tell that it went from one to the
 * other, nor whether something is told twice.
 *
 * A place is account\nroom. webhooks:nodes          hash: node → how often it has shown that it lives webhooks:dead
 * set of nodes whose peers are yet to be taken out webhooks:node:{node}    hash: place\npeer → kind: what it holds
 * webhooks:numbers        hash: node → the number of the last change that it told webhooks:peers:{place}  hash: peer
 * → how many nodes hold it webhooks:latest:{place} hash: peer → the node to which it came last webhooks:left:{place}
 * hash: peer → its event when it left that node, while another still holds it webhooks:last_left:{place} created_at
 * of the latest peer_left of a room in which somebody still is webhooks:seen           hash: node → when it told
 * something last, ms by Redis's clock webhooks:once:{key}     has been told
 *
 * webhooks:outbox:{place} list of the events that wait, as JSON, the oldest first webhooks:rooms:{account} sorted set
 * of the rooms that have such, by the first one's created_at webhooks:accounts       sorted set of the accounts that
 * have such, by the oldest one's created_at webhooks:counts         hash: account → how many events wait
 * webhooks:dropped        how many events were given up webhooks:dropped_of     hash: account → how many of its
 * events were given up webhooks:workers        hash: worker → how often it has shown that it lives webhooks:holders
 * hash: account → the worker that sends its events
 */

const PEERS_AT_ONCE = 100;

/** A change that a node tells, numbered so that one which is told again is known again. */
export type NumberedChange = { number: number; change: Change };

/** A change as `scripts/webhooks/tell.lua` reads it. */
type WrittenChange = (string | number)[];

export class WebhookStore {
  readonly #redis: Redis;
  readonly #maxWaiting: number;

  /** @param maxWaiting how many events of an account may wait; more than these are given up, the oldest first */
  constructor(redis: Redis, maxWaiting: number) {
    this.#redis = redis;
    this.#maxWaiting = maxWaiting;
  }

  /** Makes a node known, which may tell changes then. */
  async register(node: string): Promise<void> {
    await this.#redis.run((client) => client.hSet(`${WEBHOOK_PREFIX}nodes`, node, 0));
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
  async tellAgain(node: string, peers: PresentPeer[], nowMs: number): Promise<void> {
    for (let at = 0; at < peers.length; at += PEERS_AT_ONCE) {
      const changes = peers.slice(at, at + PEERS_AT_ONCE).map((peer) => joined(peer, nowMs));
      await this.#tell(node, changes.map(unnumbered), 0, false);
    }
  }

  /** The nodes, and how often each has shown that it lives. */
  async readNodes(): Promise<Map<string, string>> {
    const nodes = await this.#redis.run((client) => client.hGetAll(`${WEBHOOK_PREFIX}nodes`));
    return new Map(Object.entries(nodes));
  }

  /** Takes out the peers of a node whose count of heartbeats is still `heartbeats`. */
  async reap(node: string, heartbeats: string): Promise<void> {
    const options = { keys: [WEBHOOK_PREFIX], arguments: [node, heartbeats] };
    await this.#redis.run((client) => client.reapWebhookNode(options));
  }

  /** A node goes away, or by another name from now on. */
  async retire(node: string): Promise<void> {
    await this.#redis.run((client) =>
      client
        .multi()
        .sAdd(`${WEBHOOK_PREFIX}dead`, node)
        .hDel(`${WEBHOOK_PREFIX}nodes`, node)
        .exec(),
    );
  }

  /** Takes the peers of dead nodes out: they have left when their node told something last, as far as that is known. */
  async takeOutDead(nowMs: number): Promise<void> {
    const dead = await this.#redis.run((client) => client.sMembers(`${WEBHOOK_PREFIX}dead`));
    for (const node of dead) {
      const peers = await this.#listPeers(node);
      const seenMs = await this.#redis.run((client) => client.hGet(`${WEBHOOK_PREFIX}seen`, node));
      const leftMs = seenMs === null ? nowMs : Math.min(nowMs, Number(seenMs));
      for (let at = 0; at < peers.length; at += PEERS_AT_ONCE) {
        const some = peers.slice(at, at + PEERS_AT_ONCE);
        const changes = some.map((peer) => left(peer, 'closed', leftMs));
        await this.#tell(node, changes.map(unnumbered), 0, true);
      }
      await this.#redis.run((client) =>
        client
          .multi()
          .sRem(`${WEBHOOK_PREFIX}dead`, node)
          .hDel(`${WEBHOOK_PREFIX}numbers`, node)
          .hDel(`${WEBHOOK_PREFIX}seen`, node)
          .exec(),
      );
    }
  }

  async #listPeers(node: string): Promise<PresentPeer[]> {
    const held = await this.#redis.run((client) => client.hGetAll(`${WEBHOOK_PREFIX}node:${node}`));
    return Object.entries(held).map(([key, kind]) => {
      const [accountId, room = '', peer = ''] = key.split('\n');
      return { accountId: Number(accountId), room, peer, kind: kind as PresentPeer['kind'] };
    });
  }

  #tell(node: string, changes: NumberedChange[], dropped: number, isDead: boolean) {
    const written = JSON.stringify(changes.map(writtenChange));
    const max = String(this.#maxWaiting);
    const words = [node, written, String(dropped), isDead ? '1' : '0', max];
    const options = { keys: [WEBHOOK_PREFIX], arguments: words };
    return this.#redis.run((client) => client.tellWebhookChanges(options));
  }
}

/** How a place is named in the store; names have no line breaks. */
export const keyOf = ({ accountId, room }: RoomKey) => `${accountId}\n${room}`;

const unnumbered = (change: Change): NumberedChange => ({ number: 0, change });

function writtenChange({ number, change }: NumberedChange): WrittenChange {
  const head = [number, change.op, keyOf(change)];
  if (change.op === 'once') {
    return [...head, change.key, String(change.keptUntilMs), JSON.stringify(change.event)];
  }
  const { peer, kind, peerEvent, roomEvent } = change;
  return [...head, peer, kind, JSON.stringify(peerEvent), JSON.stringify(roomEvent)];
}
