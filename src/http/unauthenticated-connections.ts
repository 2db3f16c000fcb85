import type { Socket } from 'node:net';
import { networkOf } from '../network-of.ts';

/** Connections whose client has not authenticated, counted by address: a limit keeps one address from taking all descriptors. */
export class UnauthenticatedConnections {
  readonly #maxPerAddress: number;
  /** Sockets by {@link connectionIdOf}, in the order of the last requests of their connections, the oldest first. */
  readonly #sockets = new Map<string, Socket>();
  /** Networks of the connections that are counted, by {@link connectionIdOf}. */
  readonly #networks = new Map<string, string>();
  readonly #connectionsOf = new Map<string, number>();
  readonly #watched = new WeakSet<Socket>();

  constructor(maxPerAddress: number) {
    this.#maxPerAddress = maxPerAddress;
  }

  /** Number of connections, counted by address or not. */
  get size(): number {
    return this.#sockets.size;
  }

  /**
   * Counts a connection until its client is known, or it is closed.
   * @param address address of the client, which differs from the connection's behind a proxy
   * @returns false if the address has too many; the connection is not counted then
   */
  arrive(connection: Socket, address: string): boolean {
    const id = this.#keep(connection);
    const network = networkOf(address);
    if (this.#networks.get(id) === network) return true;
    const count = this.#connectionsOf.get(network) ?? 0;
    if (count >= this.#maxPerAddress) return false;
    this.#stopCounting(id);
    this.#networks.set(id, network);
    this.#connectionsOf.set(network, count + 1);
    return true;
  }

  /** Keeps a connection without counting it, as one of a proxy that is new or between two requests: it may be ended, but no address reaches its limit by it. */
  keepUncounted(connection: Socket): void {
    if (!connection.destroyed) this.#stopCounting(this.#keep(connection));
  }

  /** Forgets a connection: its client has authenticated. */
  forget(connection: Socket): void {
    this.#forget(connectionIdOf(connection));
  }

  /** Notes a request: connections without one are ended before this one. */
  touch(connection: Socket): void {
    const id = connectionIdOf(connection);
    if (this.#sockets.delete(id)) this.#sockets.set(id, connection);
  }

  /** Keeps a connection from being ended, although it is counted: an authenticated request is being answered. */
  hold(connection: Socket): void {
    this.#sockets.delete(connectionIdOf(connection));
  }

  /** Lets a connection be ended again: its answer has been sent. */
  release(connection: Socket): void {
    if (!connection.destroyed) this.#keep(connection);
  }

  /** Ends the connection that has been idle for longest, if there is one. */
  endOldest(): void {
    const [oldest] = this.#sockets;
    if (!oldest) return;
    const [id, socket] = oldest;
    this.#forget(id);
    socket.destroy();
  }

  #keep(connection: Socket): string {
    const id = connectionIdOf(connection);
    if (!this.#watched.has(connection)) connection.once('close', () => this.#forget(id));
    this.#watched.add(connection);
    this.#sockets.delete(id);
    this.#sockets.set(id, connection);
    return id;
  }

  #forget(id: string): void {
    this.#sockets.delete(id);
    this.#stopCounting(id);
  }

  #stopCounting(id: string): void {
    const network = this.#networks.get(id);
    if (network === undefined) return;
    this.#networks.delete(id);
    const count = (this.#connectionsOf.get(network) ?? 0) - 1;
    if (count > 0) this.#connectionsOf.set(network, count);
    else this.#connectionsOf.delete(network);
  }
}

/** Returns the addresses and the port of a connection, which its TCP and its TLS socket share. */
export const connectionIdOf = ({ remoteAddress, remotePort, localAddress }: Socket) =>
  `${remoteAddress} ${remotePort} ${localAddress}`;
