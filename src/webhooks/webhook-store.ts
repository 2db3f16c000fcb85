import {
  WEBHOOK_CHANGE_NUMBERS,
  WEBHOOK_DEAD_NODES,
  WEBHOOK_DEPARTED_NODES,
  WEBHOOK_NEWS,
  WEBHOOK_NODES,
  WEBHOOK_PREFIX,
  WEBHOOK_REPORT_TIMES,
  webhookNodeKey,
  WRITE_CHECK,
} from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import { type Change, joined, left, type WebhookRoom, type PresentPeer } from './events.ts';

const PEERS_AT_ONCE = 100;

/** A change that a node reports, numbered so that a repetition is recognized. */
export type NumberedChange = { number: number; change: Change };

/** A change as `scripts/webhooks/tell.lua` reads it. */
type WrittenChange = (string | number)[];

/**
 * Peers of each room, and events that wait to be sent, in Redis (docs/redis.md). Each node holds its own peers; a peer is in a room
 * while any node holds it there, so a change that is reported twice does not matter. The node from which a peer moved
 * reports that some time later than it happened, so that the other node has reported the peer by then.
 */
export class WebhookStore {
  readonly #redis: Redis;
  readonly #maxWaiting: number;

  /** @param maxWaiting maximum number of events of an account that wait; beyond it the oldest are given up */
  constructor(redis: Redis, maxWaiting: number) {
    this.#redis = redis;
    this.#maxWaiting = maxWaiting;
  }

  /** Registers a node, which may then report changes. */
  async register(node: string): Promise<void> {
    await this.#redis.run((client) => client.hSet(WEBHOOK_NODES, node, 0));
  }

  /**
   * Writes a node's change, if any, with the resulting events and its heartbeat. A repetition changes nothing.
   * @param dropped number of changes given up before these
   * @returns true if the node is registered; otherwise nothing was written
   */
  async tell(node: string, changes: NumberedChange[], dropped: number): Promise<boolean> {
    return (await this.#tell(node, changes, dropped, false)) === 1;
  }

  /** Writes all peers of a node that has a new name. */
  async tellAgain(node: string, peers: PresentPeer[], wallMs: number): Promise<void> {
    for (let at = 0; at < peers.length; at += PEERS_AT_ONCE) {
      const changes = peers.slice(at, at + PEERS_AT_ONCE).map((peer) => joined(peer, wallMs));
      await this.#tell(node, changes.map(unnumbered), 0, false, true);
    }
  }

  /** Returns the number of the last change of a node that was written; 0 if there is none. */
  async readLastNumber(node: string): Promise<number> {
    const number = await this.#redis.run((client) => client.hGet(WEBHOOK_CHANGE_NUMBERS, node));
    return Number(number ?? 0);
  }

  /**
   * Returns the nodes, each with its count of heartbeats.
   * @throws {PartylineError} `overloaded`, also if Redis refuses writes: heartbeats are refused, too
   */
  async readNodes(): Promise<Map<string, string>> {
    const [, nodes] = await this.#redis.run((client) =>
      client.multi().set(WRITE_CHECK, '', { condition: 'XX' }).hGetAll(WEBHOOK_NODES).execTyped(),
    );
    return new Map(Object.entries(nodes));
  }

  /** Removes the peers of a node whose count of heartbeats is still `heartbeats`. */
  async reap(node: string, heartbeats: string): Promise<void> {
    const options = { keys: [WEBHOOK_PREFIX], arguments: [node, heartbeats] };
    await this.#redis.run((client) => client.reapWebhookNode(options));
  }

  /** Returns the nodes that have ended and keep places, and for how long they do so, ms. */
  async readDeparted(): Promise<Map<string, number>> {
    const departed = await this.#redis.run((client) => client.hGetAll(WEBHOOK_DEPARTED_NODES));
    return new Map(Object.entries(departed).map(([node, keepMs]) => [node, Number(keepMs)]));
  }

  /** Notes that a node has ended, and keeps the places of its peers for a while. */
  async depart(node: string, keepMs: number): Promise<void> {
    const options = { keys: [WEBHOOK_PREFIX], arguments: [node, String(keepMs)] };
    await this.#redis.run((client) => client.departWebhookNode(options));
  }

  /** Unregisters a node that goes away or takes another name. */
  async retire(node: string): Promise<void> {
    await this.#redis.run((client) =>
      client.multi().sAdd(WEBHOOK_DEAD_NODES, node).hDel(WEBHOOK_NODES, node).exec(),
    );
  }

  /** Removes the peers of dead nodes, with the time of their node's last report as the time of their leave, if it is known. */
  async takeOutDead(wallMs: number): Promise<void> {
    const dead = await this.#redis.run((client) => client.sMembers(WEBHOOK_DEAD_NODES));
    for (const node of dead) {
      const peers = await this.#listPeers(node);
      const seenMs = await this.#redis.run((client) => client.hGet(WEBHOOK_REPORT_TIMES, node));
      const leftMs = seenMs === null ? wallMs : Math.min(wallMs, Number(seenMs));
      for (let at = 0; at < peers.length; at += PEERS_AT_ONCE) {
        const some = peers.slice(at, at + PEERS_AT_ONCE);
        const changes = some.map((peer) => left(peer, 'closed', leftMs));
        await this.#tell(node, changes.map(unnumbered), 0, true);
      }
      await this.#redis.run((client) =>
        client
          .multi()
          .sRem(WEBHOOK_DEAD_NODES, node)
          .hDel(WEBHOOK_DEPARTED_NODES, node)
          .hDel(WEBHOOK_CHANGE_NUMBERS, node)
          .hDel(WEBHOOK_REPORT_TIMES, node)
          .exec(),
      );
    }
  }

  async #listPeers(node: string): Promise<PresentPeer[]> {
    const held = await this.#redis.run((client) => client.hGetAll(webhookNodeKey(node)));
    return Object.entries(held).map(([key, kind]) => {
      const [accountId, room = '', peer = ''] = key.split('\n');
      return { accountId: Number(accountId), room, peer, kind: kind as PresentPeer['kind'] };
    });
  }

  /** @param isAgain true if the node holds these peers already, under another name */
  #tell(
    node: string,
    changes: NumberedChange[],
    dropped: number,
    isDead: boolean,
    isAgain = false,
  ) {
    const written = JSON.stringify(changes.map((change) => writtenChange(change, isAgain)));
    const max = String(this.#maxWaiting);
    const news = this.#redis.channelOf(WEBHOOK_NEWS);
    const words = [node, written, String(dropped), isDead ? '1' : '0', max, news];
    const options = { keys: [WEBHOOK_PREFIX], arguments: words };
    return this.#redis.run((client) => client.tellWebhookChanges(options));
  }
}

/** Returns the name of a place in the store; names have no line breaks. */
export const keyOf = ({ accountId, room }: WebhookRoom) => `${accountId}\n${room}`;

const unnumbered = (change: Change): NumberedChange => ({ number: 0, change });

function writtenChange({ number, change }: NumberedChange, isAgain: boolean): WrittenChange {
  const head = [number, isAgain ? 'again' : change.op, keyOf(change)];
  if (change.op === 'once') {
    return [...head, change.key, String(change.keptUntilMs), JSON.stringify(change.event)];
  }
  const { peer, kind, peerEvent, roomEvent } = change;
  const events =
    change.op === 'join' ? [peerEvent, roomEvent, change.endEvent] : [peerEvent, roomEvent];
  return [...head, peer, kind, ...events.map((event) => JSON.stringify(event))];
}
