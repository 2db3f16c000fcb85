import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../../config/timings.ts';
import type { PipeSettings } from '../../media/node-pipe.ts';
import { type RelayedMessage, writeRelayFrame } from './relay-frame.ts';
import { type RelayAddress, RelayLink } from './relay-link.ts';
import { relayKeyOf } from './relay-secret.ts';
import { RelayServer } from './relay-server.ts';

export type RelaysParts = {
  /** Id of this node. */
  node: string;
  clusterKey: string;
  pipes: PipeSettings;
  timings: Timings['relay'];
  log: FastifyBaseLogger;
  /** A peer on another node has sent a message. */
  onMessage: (message: RelayedMessage) => void;
};

/** A node to which messages go. */
export type RelayTarget = { node: string; address: RelayAddress };

/** Messages of unknown formats between this node and others: a server for theirs, and a link to each node that takes ours. */
export class Relays {
  /** Where other nodes reach this one; undefined if they cannot. */
  readonly address: RelayAddress | undefined;
  readonly #parts: RelaysParts;
  readonly #key: Buffer;
  readonly #server: RelayServer | undefined;
  /** By node. */
  readonly #links = new Map<string, RelayLink>();

  private constructor(parts: RelaysParts, key: Buffer, server: RelayServer | undefined) {
    const { listenIp, announcedAddress } = parts.pipes;
    this.#parts = parts;
    this.#key = key;
    this.#server = server;
    this.address = server && { ip: announcedAddress || listenIp, port: server.port };
  }

  /** Opens the server. Without a free port the node does all else, and that is logged. */
  static async open(parts: RelaysParts): Promise<Relays> {
    const { node, clusterKey, pipes, timings, log, onMessage } = parts;
    const { listenIp, portRange } = pipes;
    const key = relayKeyOf(clusterKey);
    try {
      const place = { node, listenIp, portRange };
      const server = await RelayServer.open({ ...place, key, timings, log, onMessage });
      return new Relays(parts, key, server);
    } catch (fault) {
      log.error(
        { err: fault, listenIp, ...portRange },
        'no TCP port for other nodes: sound of unknown formats stays within this node',
      );
      return new Relays(parts, key, undefined);
    }
  }

  /** Number of connections to other nodes. */
  get size(): number {
    return [...this.#links.values()].filter(({ isOpen }) => isOpen).length;
  }

  /** Sends one message to some nodes; returns at once. */
  send(accountId: number, message: RelayedMessage, targets: RelayTarget[]): void {
    if (targets.length === 0) return;
    const frame = writeRelayFrame(message);
    for (const { node, address } of targets) this.#linkTo(node, address).send(accountId, frame);
  }

  /** A node is no more. */
  forget(node: string): void {
    this.#links.get(node)?.close();
    this.#links.delete(node);
  }

  close(): void {
    this.#server?.close();
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }

  #linkTo(to: string, address: RelayAddress): RelayLink {
    let link = this.#links.get(to);
    if (!link) {
      const { node: from, timings, log } = this.#parts;
      link = new RelayLink({ from, to, address, key: this.#key, timings, log });
      this.#links.set(to, link);
    }
    return link;
  }
}
