import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { createServer, type Server, type TLSSocket } from 'node:tls';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../../config/timings.ts';
import { counters } from '../../counters.ts';
import { PROBE, type RelayedMessage, RelayFrameReader } from './relay-frame.ts';
import { RELAY_PROTOCOL, RELAY_TLS_VERSION, relayIdentityOf } from './relay-secret.ts';

export type RelayServerParts = {
  /** Id of this node. */
  node: string;
  listenIp: string;
  /** Range of TCP ports, of which it uses a free one. */
  portRange: { min: number; max: number };
  key: Buffer;
  timings: Timings['relay'];
  log: FastifyBaseLogger;
  onMessage: (message: RelayedMessage) => void;
};

/** Number of ports that are tried, beginning with a random one. */
const MAX_ATTEMPTS = 50;
/** Connections that have not shown the key yet. Further ones are closed as they come. */
const MAX_UNAUTHENTICATED = 64;
/** A node that connects sends a probe in each interval; a connection that is silent for longer than this many is dead. */
const SILENT_PROBES = 30;

/** Receives relayed messages from other nodes. A peer without the key of the cluster gets only a TLS alert. */
export class RelayServer {
  readonly #parts: RelayServerParts;
  readonly #server: Server;
  readonly #connections = new Set<TLSSocket>();
  /** By address and port. */
  readonly #unauthenticated = new Map<string, Socket>();

  private constructor(parts: RelayServerParts) {
    const { key, node, timings } = parts;
    this.#parts = parts;
    this.#server = createServer({
      minVersion: RELAY_TLS_VERSION,
      ALPNProtocols: [RELAY_PROTOCOL],
      handshakeTimeout: timings.connectWithinMs,
      pskCallback: (_socket, identity) => {
        const [from = ''] = identity.split(' ');
        return identity === relayIdentityOf(from, node) ? key : null;
      },
    });
    this.#server.on('connection', (socket: Socket) => this.#arrived(socket));
    this.#server.on('secureConnection', (socket) => this.#serve(socket));
    this.#server.on('tlsClientError', (fault, socket) => {
      counters.relayRefusals += 1;
      parts.log.debug({ err: fault }, 'relay refused a connection');
      socket.destroy();
    });
  }

  /** @throws {Error} if the address is not this machine's, or no port is free */
  static async open(parts: RelayServerParts): Promise<RelayServer> {
    const relay = new RelayServer(parts);
    const { listenIp, portRange, log } = parts;
    const ports = portRange.max - portRange.min + 1;
    const first = randomInt(ports);
    for (let attempt = 1; ; attempt += 1) {
      const port = portRange.min + ((first + attempt) % ports);
      try {
        relay.#server.listen(port, listenIp);
        await once(relay.#server, 'listening');
        relay.#server.on('error', (fault) => log.error({ err: fault }, 'relay server failed'));
        return relay;
      } catch (fault) {
        const isTaken = (fault as NodeJS.ErrnoException).code === 'EADDRINUSE';
        if (!isTaken || attempt >= Math.min(ports, MAX_ATTEMPTS)) throw fault;
      }
    }
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('relay server is closed');
    return address.port;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#connections) socket.destroy();
    for (const socket of this.#unauthenticated.values()) socket.destroy();
  }

  #arrived(socket: Socket): void {
    if (this.#unauthenticated.size >= MAX_UNAUTHENTICATED) {
      counters.relayRefusals += 1;
      socket.destroy();
      return;
    }
    const name = nameOf(socket);
    this.#unauthenticated.set(name, socket);
    socket.once('close', () => this.#unauthenticated.delete(name));
  }

  #serve(socket: TLSSocket): void {
    this.#unauthenticated.delete(nameOf(socket));
    this.#connections.add(socket);
    const { onMessage, timings, log } = this.#parts;
    const reader = new RelayFrameReader(
      (message) => {
        counters.relayed.in += 1;
        onMessage(message);
      },
      () => socket.write(PROBE),
    );
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch (fault) {
        log.error({ err: fault }, 'relay connection of a node closed: malformed frame');
        socket.destroy();
      }
    });
    socket.setTimeout(SILENT_PROBES * timings.probeEveryMs, () => socket.destroy());
    socket.on('error', (fault) => log.debug({ err: fault }, 'relay connection of a node failed'));
    socket.on('close', () => this.#connections.delete(socket));
  }
}

const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`;
