import type { Transport } from './state.ts';

/** Statistics of the audio of a room, the same for all transports. */
export type ClientStats = {
  transport: Transport;
  /**
   * Estimate of the time from mouth to ear, ms: from this client through the gateway and back. Absent until
   * it can be estimated.
   */
  mouthToEarMs?: number;
  /** Round trip to the gateway, ms. */
  rttMs?: number;
  /** Variation of the arrival times of audio, ms. */
  jitterMs?: number;
  /** Share of the audio since the last call that did not arrive, 0 to 1; 0 if none was due. */
  lossRatio: number;
  /** Number of times since the last call that the playback had nothing to play although the audio went on. */
  underruns: number;
  /** Bit rates since the last call, bit/s, without the overhead of the transport. */
  sentBitrate: number;
  receivedBitrate: number;
};

/** Counts of one stream, or sums of several, since their beginning. */
export type StreamCounters = {
  bytesSent: number;
  bytesReceived: number;
  packetsReceived: number;
  packetsLost: number;
  underruns: number;
};

/** Counts of a room's audio from its beginning. */
export type AudioCounters = StreamCounters & {
  /** Counts of each stream, for a transport whose streams begin and end: the sums do not include streams that have ended. */
  streams?: ReadonlyMap<string, StreamCounters>;
  rttMs?: number;
  jitterMs?: number;
  /** Time from arrival to the speakers, ms. */
  playoutMs?: number;
};

/** Duration of a packet and the time to record and encode it, together, ms. */
const PACKET_MS = 25;

/** Computes statistics from counters. They are of the time since the last call, or since the audio began. */
export class StatsMeter {
  /** Counts of the last call by stream. */
  #last: ReadonlyMap<string, StreamCounters> = new Map();
  #lastMs: number;

  /** @param nowMs current time by a monotonic clock, ms */
  constructor(nowMs: number) {
    this.#lastMs = nowMs;
  }

  measure(transport: Transport, counters: AudioCounters, nowMs: number): ClientStats {
    const last = this.#last;
    const seconds = Math.max(0.001, (nowMs - this.#lastMs) / 1000);
    const streams = counters.streams ?? new Map([['', counters]]);
    this.#last = streams;
    this.#lastMs = nowMs;
    const since = (name: keyof StreamCounters) => {
      const grown = [...streams].map(([id, counts]) => counts[name] - (last.get(id)?.[name] ?? 0));
      return Math.max(
        0,
        grown.reduce((sum, count) => sum + count, 0),
      );
    };
    const lost = since('packetsLost');
    const due = since('packetsReceived') + lost;
    const { rttMs, jitterMs, playoutMs } = counters;
    const isKnown = rttMs !== undefined && playoutMs !== undefined;
    return {
      transport,
      ...(isKnown && { mouthToEarMs: Math.round(PACKET_MS + rttMs + playoutMs) }),
      ...(rttMs !== undefined && { rttMs }),
      ...(jitterMs !== undefined && { jitterMs }),
      lossRatio: due > 0 ? lost / due : 0,
      underruns: since('underruns'),
      sentBitrate: Math.round((since('bytesSent') * 8) / seconds),
      receivedBitrate: Math.round((since('bytesReceived') * 8) / seconds),
    };
  }
}
