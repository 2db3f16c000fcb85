/** A waiting packet: its duration, and whether it is so quiet that nobody would miss it. */
type Waiting = { durationMs: number; isQuiet: boolean };

/** Packets in their order, with how much sound they are. */
export class PacketQueue<P extends Waiting> {
  readonly #packets: P[] = [];
  #quietPackets = 0;
  #durationMs = 0;

  get length(): number {
    return this.#packets.length;
  }

  get durationMs(): number {
    return this.#durationMs;
  }

  at(index: number): P | undefined {
    return this.#packets.at(index);
  }

  push(packet: P): void {
    this.#packets.push(packet);
    this.#quietPackets += packet.isQuiet ? 1 : 0;
    this.#durationMs += packet.durationMs;
  }

  remove(index: number): P | undefined {
    const removed = index === 0 ? this.#packets.shift() : this.#packets.splice(index, 1)[0];
    this.#quietPackets -= removed?.isQuiet ? 1 : 0;
    this.#durationMs -= removed?.durationMs ?? 0;
    return removed;
  }

  /** Index of the packet that is missed least: the oldest of silence, or else the oldest. */
  indexOfLeastMissed(): number {
    return this.#quietPackets > 0 ? this.#packets.findIndex(({ isQuiet }) => isQuiet) : 0;
  }
}
