import type { FastifyBaseLogger } from 'fastify';
import { familyOf } from '../../../config/listen-addresses.ts';
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

/** A server, and the address of it that other nodes are told. */
type Opened = { server: RelayServer; ip: string };

/** Messages of unknown formats between this node and others: a server for theirs, and a link to each node that takes ours. */
export class Relays {
  /** Addresses at which other nodes reach this one; empty if they cannot. */
  readonly addresses: RelayAddress[];
  readonly #parts: RelaysParts;
  readonly #key: Buffer;
  readonly #servers: RelayServer[];
  /** By node. */
  readonly #links = new Map<string, RelayLink>();

  private constructor(parts: RelaysParts, key: Buffer, opened: Opened[]) {
    this.#parts = parts;
    this.#key = key;
    this.#servers = opened.map(({ server }) => server);
    this.addresses = opened.map(({ server, ip }) => ({ ip, port: server.port }));
  }

  /** Opens the servers, one for each address. If no port is free, that is logged, and the node works without relay server. */
  static async open(parts: RelaysParts): Promise<Relays> {
    const { node, clusterKey, pipes, timings, log, onMessage } = parts;
    const { addresses, portRange } = pipes;
    const key = relayKeyOf(clusterKey);
    const opened: Opened[] = [];
    for (const { ip: listenIp, announced } of addresses) {
      try {
        const place = { node, listenIp, portRange };
        const server = await RelayServer.open({ ...place, key, timings, log, onMessage });
        opened.push({ server, ip: announced ?? listenIp });
      } catch (fault) {
        log.error(
          { err: fault, listenIp, ...portRange },
          'no TCP port for other nodes; audio of unknown formats stays within this node',
        );
      }
    }
    return new Relays(parts, key, opened);
  }

  /** Returns the first of another node's addresses that is of a family which this node has. */
  reachable(addresses: RelayAddress[]): RelayAddress | undefined {
    const families = this.#parts.pipes.addresses.map(familyOf);
    return addresses.find((address) => families.includes(familyOf(address))) ?? addresses[0];
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

  /** Closes the link to a node that has left or died. */
  forget(node: string): void {
    this.#links.get(node)?.close();
    this.#links.delete(node);
  }

  close(): void {
    for (const server of this.#servers) server.close();
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
