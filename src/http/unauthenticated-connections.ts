import type { Socket } from 'node:net';
import { networkOf } from '../network-of.ts';

/** Connections whose client has not authenticated, counted by address: a limit keeps one address from taking all descriptors. */
export class UnauthenticatedConnections {
  readonly #maxPerAddress: number;
  /** Connections by their own address and port, which the TCP and the TLS socket of a connection share. */
  readonly #networks = new Map<string, string>();
  readonly #connectionsOf = new Map<string, number>();
  readonly #watched = new WeakSet<Socket>();

  constructor(maxPerAddress: number) {
    this.#maxPerAddress = maxPerAddress;
  }

  /** Number of connections that are counted. */
  get size(): number {
    return this.#networks.size;
  }

  /**
   * Counts a connection until its client is known, or it is closed.
   * @param address address of the client, which differs from the connection's behind a proxy
   * @returns false if the address has too many; the connection is not counted then
   */
  arrive(connection: Socket, address: string): boolean {
    const network = networkOf(address);
    const id = idOf(connection);
    if (this.#networks.get(id) === network) return true;
    const count = this.#connectionsOf.get(network) ?? 0;
    if (count >= this.#maxPerAddress) return false;
    this.#forget(id);
    if (!this.#watched.has(connection)) connection.once('close', () => this.#forget(id));
    this.#watched.add(connection);
    this.#networks.set(id, network);
    this.#connectionsOf.set(network, count + 1);
    return true;
  }

  /** Stops counting a connection: its client has authenticated, or a proxy's connection is between two requests. */
  forget(connection: Socket): void {
    this.#forget(idOf(connection));
  }

  #forget(id: string): void {
    const network = this.#networks.get(id);
    if (network === undefined) return;
    this.#networks.delete(id);
    const count = (this.#connectionsOf.get(network) ?? 0) - 1;
    if (count > 0) this.#connectionsOf.set(network, count);
    else this.#connectionsOf.delete(network);
  }
}

const idOf = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`;
