import type { Timings } from '../../config/timings.ts';
import type { PipeTraffic } from '../media/node-pipe.ts';

/**
 * Detects that what is sent does not arrive, and that a network has recovered after a long outage. The sending end of a pipe receives receiver reports
 * (RFC 3550 §6.4.2) of each stream of which a packet has arrived, even when nobody speaks. Sequence numbers may have
 * wrapped during the outage, and SRTP's roll-over counter is then wrong for good (RFC 3711 §3.3.1): the pipe must be
 * opened anew. Pure.
 */
export class LinkWatch {
  readonly #timings: Pick<Timings['pipes'], 'cutAfterMs' | 'silentAfterMs'>;
  #traffic: PipeTraffic = { bytesReceived: 0, rtpBytesSent: 0 };
  #checkedAtMs = 0;
  /** Time since the last bytes came in during which packets were sent; undefined before the first check at which any were. */
  #silentMs: number | undefined;

  /** @param timings silence of the other end by which it counts as silent, and as cut; reports come every 2.5 s */
  constructor(timings: Pick<Timings['pipes'], 'cutAfterMs' | 'silentAfterMs'>) {
    this.#timings = timings;
  }

  /** True while nothing comes back of what is sent: a firewall drops it, or the address is wrong. */
  get isSilent(): boolean {
    return (this.#silentMs ?? 0) >= this.#timings.silentAfterMs;
  }

  /**
   * Takes the traffic so far.
   * @returns true if the link was cut and has recovered
   */
  isBack(traffic: PipeTraffic, nowMs: number): boolean {
    const { bytesReceived, rtpBytesSent } = this.#traffic;
    // Streams without a packet get no reports, and no sequence number wraps while nothing is sent.
    const hasSent = traffic.rtpBytesSent > rtpBytesSent;
    if (hasSent) {
      this.#silentMs =
        this.#silentMs === undefined ? 0 : this.#silentMs + nowMs - this.#checkedAtMs;
    }
    this.#traffic = traffic;
    this.#checkedAtMs = nowMs;
    if (traffic.bytesReceived === bytesReceived) return false;
    const silentMs = this.#silentMs ?? 0;
    this.#silentMs = 0;
    return silentMs >= this.#timings.cutAfterMs;
  }

  /** Notes that nothing is sent for now, so that the silence of the other end does not count. */
  rest(): void {
    this.#silentMs = undefined;
  }
}
