/**
 * Finds out that a network which was cut for long is whole again. The end of a pipe that sends is sent receiver reports
 * (RFC 3550 §6.4.2), also when nobody speaks. Sequence numbers may have wrapped while none came through, and SRTP's
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
   * Takes how many bytes have come in so far.
   * @returns whether the link was cut, and is not any more
   */
  isBack(bytesReceived: number, nowMs: number): boolean {
    if (bytesReceived === this.#bytes) return false;
    this.#bytes = bytesReceived;
    const silentMs = this.#movedAtMs === undefined ? 0 : nowMs - this.#movedAtMs;
    this.#movedAtMs = nowMs;
    return silentMs >= this.#cutAfterMs;
  }

  /** Nothing is sent for now, so nothing will come in. */
  rest(): void {
    this.#movedAtMs = undefined;
  }
}
