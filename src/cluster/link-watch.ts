/**
 * Detects that a network has recovered after a long outage. The sending end of a pipe receives receiver reports
 * (RFC 3550 §6.4.2), even when nobody speaks. Sequence numbers may have wrapped during the outage, and SRTP's
 * roll-over counter is then wrong for good (RFC 3711 §3.3.1): the pipe must be opened anew. Pure.
 */
export class LinkWatch {
  readonly #cutAfterMs: number;
  #bytes = 0;
  #movedAtMs: number | undefined;

  /** @param cutAfterMs silence of the other end that means that the network is cut; reports come every 2.5 s */
  constructor(cutAfterMs: number) {
    this.#cutAfterMs = cutAfterMs;
  }

  /**
   * Takes the number of bytes received so far.
   * @returns true if the link was cut and has recovered
   */
  isBack(bytesReceived: number, nowMs: number): boolean {
    if (bytesReceived === this.#bytes) return false;
    this.#bytes = bytesReceived;
    const silentMs = this.#movedAtMs === undefined ? 0 : nowMs - this.#movedAtMs;
    this.#movedAtMs = nowMs;
    return silentMs >= this.#cutAfterMs;
  }

  /** Notes that nothing is sent for now, so that the silence of the other end does not count. */
  rest(): void {
    this.#movedAtMs = undefined;
  }
}
