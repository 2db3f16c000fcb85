import { readFile } from 'node:fs/promises';
import type { FastifyBaseLogger } from 'fastify';
import type { WebRtcTransport } from 'mediasoup/types';
import type { Timings } from '../../config/timings.ts';
import { counters } from '../counters.ts';
import { unreadBytesOf } from './tcp-queues.ts';

/**
 * Bit rate of all that is sent to a client beside its sound: answers to its STUN, RTCP, DTLS, and what SRTP adds to each packet of
 * sound. The last is 3.2 Mbit/s of a browser with 250 consumers of 100 packets a second (16 bytes each), answers to a flood are far
 * more. mediasoup measures it over 1 s.
 */
const MAX_ANSWERS_BPS = 5_000_000;
/** Data in the kernel's queue to a client over TCP from which the client counts as one that does not read: seconds of sound. */
const MAX_UNREAD_BYTES = 65_536;

/** Number of intervals without a call of {@link TransportGuard.look} after which a new watch begins. */
const PAUSED_INTERVALS = 2;

type GuardTimings = Pick<Timings['mediaWorkers'], 'transportsEveryMs' | 'unreadForMs'>;

/**
 * The WebRTC transports of one media worker. mediasoup keeps all that a client over TCP does not read, answers to its STUN included,
 * without a limit: when the memory of the media worker grows, the transports that may be the reason are closed.
 */
export class TransportGuard {
  readonly #rtcPort: number;
  readonly #timings: GuardTimings;
  readonly #log: FastifyBaseLogger;
  readonly #readTables: () => Promise<string[]>;
  readonly #transports = new Set<WebRtcTransport>();
  /** Times since which clients have not read, ms. */
  readonly #unreadSinceMs = new Map<WebRtcTransport, number>();
  #lookedAtMs = -Infinity;
  #calledAtMs = -Infinity;
  #isLooking = false;

  /** @param readTables returns the kernel's tables of TCP connections */
  constructor(
    rtcPort: number,
    timings: GuardTimings,
    log: FastifyBaseLogger,
    readTables = readTcpTables,
  ) {
    this.#rtcPort = rtcPort;
    this.#timings = timings;
    this.#log = log;
    this.#readTables = readTables;
  }

  get size(): number {
    return this.#transports.size;
  }

  add(transport: WebRtcTransport): void {
    this.#transports.add(transport);
    transport.observer.once('close', () => {
      this.#transports.delete(transport);
      this.#unreadSinceMs.delete(transport);
    });
  }

  /**
   * Closes each transport whose client asks for too much, or has not read for a while; to be called without a pause while they are
   * watched. Does nothing if the last look was a moment ago.
   */
  async look(nowMs: number): Promise<void> {
    const pausedMs = nowMs - this.#calledAtMs;
    this.#calledAtMs = nowMs;
    // They may have read all since.
    if (pausedMs > PAUSED_INTERVALS * this.#timings.transportsEveryMs) this.#unreadSinceMs.clear();
    if (this.#isLooking || nowMs - this.#lookedAtMs < this.#timings.transportsEveryMs) return;
    this.#lookedAtMs = nowMs;
    this.#isLooking = true;
    try {
      await this.#cutUnread(nowMs);
      // One after the other: many requests at once would delay others.
      for (const transport of this.#transports) await this.#cutFlood(transport);
    } finally {
      this.#isLooking = false;
    }
  }

  async #cutFlood(transport: WebRtcTransport): Promise<void> {
    try {
      const [stats] = await transport.getStats();
      if (!stats) return;
      const { sendBitrate, rtpSendBitrate, rtxSendBitrate, probationSendBitrate } = stats;
      const answersBps = sendBitrate - rtpSendBitrate - rtxSendBitrate - probationSendBitrate;
      if (answersBps > MAX_ANSWERS_BPS) this.#cut(transport, { answersBps });
    } catch (fault) {
      // Requests of a transport that has closed meanwhile are rejected.
      if (!transport.closed) throw fault;
    }
  }

  async #cutUnread(nowMs: number): Promise<void> {
    const overTcp = [...this.#transports].flatMap((transport) => {
      const { iceSelectedTuple: tuple } = transport;
      return tuple?.protocol === 'tcp' ? [{ transport, tuple }] : [];
    });
    const left = new Set(this.#unreadSinceMs.keys());
    for (const { transport } of overTcp) left.delete(transport);
    for (const transport of left) this.#unreadSinceMs.delete(transport);
    if (overTcp.length === 0) return;
    const unread = unreadBytesOf(await this.#readTables(), this.#rtcPort);
    for (const { transport, tuple } of overTcp) {
      const bytes = unread(tuple.remoteIp ?? '', tuple.remotePort ?? 0);
      if (bytes < MAX_UNREAD_BYTES) {
        this.#unreadSinceMs.delete(transport);
        continue;
      }
      const sinceMs = this.#unreadSinceMs.get(transport) ?? nowMs;
      this.#unreadSinceMs.set(transport, sinceMs);
      if (nowMs - sinceMs >= this.#timings.unreadForMs)
        this.#cut(transport, { unreadBytes: bytes });
    }
  }

  #cut(transport: WebRtcTransport, why: { answersBps: number } | { unreadBytes: number }): void {
    if (transport.closed) return;
    counters.transportsCut += 1;
    const remoteIp = transport.iceSelectedTuple?.remoteIp;
    this.#log.warn({ transport: transport.id, remoteIp, ...why }, 'transport cut');
    transport.close();
  }
}

/** Returns the kernel's tables of TCP connections, of both families; an empty one if it is missing (no IPv6) or cannot be read. */
const readTcpTables = () =>
  Promise.all(
    ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => readFile(path, 'latin1').catch(() => '')),
  );
