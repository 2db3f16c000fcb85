import { connect, type TLSSocket } from 'node:tls';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../../config/timings.ts';
import { counters } from '../../counters.ts';
import { PROBE, RelayFrameReader } from './relay-frame.ts';
import { RelayQueue } from './relay-queue.ts';
import { RELAY_PROTOCOL, RELAY_TLS_VERSION, relayIdentityOf } from './relay-secret.ts';

/** Address at which a node receives messages from others. */
export type RelayAddress = { ip: string; port: number };

/** Maximum number of bytes that wait for one node: about 10 s of one sender of 48 kHz stereo float samples. */
const MAX_QUEUED_BYTES = 4 << 20;
/**
 * Probes in a row without an answer after which the connection is given up. Counted, because a stall of this
 * process delays both.
 */
const MAX_MISSED_PROBES = 3;
const NOT_A_NODE = 'the server is not a Partyline node: it presented a certificate';

export type RelayLinkParts = {
  /** Id of this node. */
  from: string;
  /** Id of the node to which the link leads. */
  to: string;
  address: RelayAddress;
  key: Buffer;
  timings: Timings['relay'];
  log: FastifyBaseLogger;
};

/** `waiting`: the last connection ended a moment ago, and not by this node. */
type State =
  | { name: 'idle' }
  | { name: 'connecting'; socket: TLSSocket; timer: NodeJS.Timeout }
  | { name: 'open'; socket: TLSSocket; timer: NodeJS.Timeout; missedProbes: number }
  | { name: 'waiting'; timer: NodeJS.Timeout }
  | { name: 'closed' };

/**
 * Path of relayed messages to one other node: a TCP connection (TLS 1.3 with the key of the cluster), opened
 * for the first message, and closed when there has been none for a while. Messages wait while it is opened or
 * slow; the oldest are dropped, and counted.
 */
export class RelayLink {
  readonly #parts: RelayLinkParts;
  readonly #queue: RelayQueue<number>;
  #state: State = { name: 'idle' };
  #sentAtMs = 0;
  /** A failure is logged once, until a connection works again. */
  #isFailing = false;

  constructor(parts: RelayLinkParts) {
    this.#parts = parts;
    this.#queue = new RelayQueue({
      maxBytes: MAX_QUEUED_BYTES,
      maxAgeMs: parts.timings.maxAgeMs,
    });
  }

  get isOpen(): boolean {
    return this.#state.name === 'open';
  }

  /** @param accountId accounts take turns where the connection is slow */
  send(accountId: number, frame: Buffer): void {
    if (this.#state.name === 'closed') return;
    this.#sentAtMs = performance.now();
    this.#queue.push(accountId, frame, this.#sentAtMs);
    if (this.#state.name === 'open') this.#pump(this.#state.socket);
    else this.#countDrops();
    if (this.#state.name === 'idle') this.#connect();
  }

  /** Drops what waits. */
  close(): void {
    const state = this.#state;
    this.#state = { name: 'closed' };
    if ('timer' in state) clearTimeout(state.timer);
    if ('socket' in state) state.socket.destroy();
    this.#queue.clear();
  }

  #connect(): void {
    const { from, to, address, key, timings } = this.#parts;
    const socket = connect({
      host: address.ip,
      port: address.port,
      minVersion: RELAY_TLS_VERSION,
      // NODE_TLS_REJECT_UNAUTHORIZED must not change that.
      rejectUnauthorized: true,
      ALPNProtocols: [RELAY_PROTOCOL],
      pskCallback: () => ({ psk: key, identity: relayIdentityOf(from, to) }),
      // Called only for a server with a certificate, which a node never has.
      checkServerIdentity: () => new Error(NOT_A_NODE),
    });
    socket.setNoDelay(true);
    const timer = setTimeout(
      () => socket.destroy(new Error(`not connected within ${timings.connectWithinMs} ms`)),
      timings.connectWithinMs,
    );
    this.#state = { name: 'connecting', socket, timer };
    let fault: Error | undefined;
    socket.on('secureConnect', () => this.#connected(socket));
    socket.on('error', (error) => (fault = error));
    socket.on('close', () => this.#ended(socket, fault));
  }

  #connected(socket: TLSSocket): void {
    if (this.#state.name !== 'connecting') return;
    if (Object.keys(socket.getPeerCertificate()).length > 0) {
      socket.destroy(new Error(NOT_A_NODE));
      return;
    }
    clearTimeout(this.#state.timer);
    if (this.#isFailing) this.#parts.log.info({ node: this.#parts.to }, 'relay to node restored');
    this.#isFailing = false;
    const timer = setInterval(() => this.#check(open), this.#parts.timings.probeEveryMs);
    const open = { name: 'open', socket, timer, missedProbes: 0 } as const satisfies State;
    this.#state = open;
    this.#readProbes(open);
    socket.on('drain', () => {
      // Messages that wait now may go over the next connection.
      if (this.#state === open) this.#pump(socket);
    });
    this.#pump(socket);
  }

  #readProbes(open: State & { name: 'open' }): void {
    const { socket } = open;
    const reader = new RelayFrameReader(
      () => socket.destroy(new Error('unexpected message; only answers to probes are accepted')),
      () => (open.missedProbes = 0),
    );
    socket.on('data', (chunk: Buffer) => {
      try {
        reader.push(chunk);
      } catch (fault) {
        socket.destroy(fault as Error);
      }
    });
  }

  /** Closes a connection that does not answer, or has been idle for too long. */
  #check(open: State & { name: 'open' }): void {
    const { socket } = open;
    if (open.missedProbes >= MAX_MISSED_PROBES) {
      socket.destroy(new Error('the node does not answer'));
    } else if (performance.now() - this.#sentAtMs >= this.#parts.timings.idleMs) {
      clearInterval(open.timer);
      this.#state = { name: 'idle' };
      socket.destroySoon();
    } else {
      open.missedProbes += 1;
      socket.write(PROBE);
    }
  }

  /** Writes what waits, as far as the connection takes it. */
  #pump(socket: TLSSocket): void {
    const nowMs = performance.now();
    socket.cork();
    while (!socket.writableNeedDrain) {
      const frame = this.#queue.take(nowMs);
      if (!frame) break;
      socket.write(frame);
      counters.relayed.out += 1;
    }
    socket.uncork();
    this.#countDrops();
  }

  #countDrops(): void {
    counters.dropped.not_relayed += this.#queue.takeDropped();
  }

  #ended(socket: TLSSocket, fault: Error | undefined): void {
    const state = this.#state;
    if (!('socket' in state) || state.socket !== socket) return;
    clearTimeout(state.timer);
    // A node that goes away closes its connections in order.
    if (fault || state.name === 'connecting') this.#failed(fault ?? new Error('closed at once'));
    const timer = setTimeout(() => this.#retry(), this.#parts.timings.retryAfterMs);
    this.#state = { name: 'waiting', timer };
  }

  #failed(fault: Error): void {
    counters.relayFaults += 1;
    if (this.#isFailing) return;
    this.#isFailing = true;
    const { to, address, log } = this.#parts;
    log.warn({ err: fault, node: to, ...address }, 'relay to node failed');
  }

  #retry(): void {
    this.#state = { name: 'idle' };
    this.#queue.expire(performance.now());
    this.#countDrops();
    if (!this.#queue.isEmpty) this.#connect();
  }
}
