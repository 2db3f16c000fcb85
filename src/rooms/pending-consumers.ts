/**
 * Maximum number of consumers of a browser whose recv transport is not connected yet: mediasoup-client connects the transport for the
 * first consumer, so there must be some; more would cost the media worker work for a browser that may never connect.
 */
const MAX_UNCONNECTED = 4;
/** Maximum number of consumers of one browser. Further speakers get one when others end. */
const MAX_CONSUMERS = 250;

/** Producers that a browser will hear once it may have a consumer for each. Pure. */
export class PendingConsumers<Producer extends { id: string }> {
  readonly #consume: (producer: Producer) => void;
  readonly #waiting = new Map<string, Producer>();
  #max = MAX_UNCONNECTED;
  #open = 0;

  /** @param consume creates a consumer; {@link ended} must be called when it has ended or failed */
  constructor(consume: (producer: Producer) => void) {
    this.#consume = consume;
  }

  add(producer: Producer): void {
    this.#waiting.set(producer.id, producer);
    this.#fill();
  }

  /** Forgets a producer that has ended, if it still waits. */
  delete(id: string): void {
    this.#waiting.delete(id);
  }

  /** Notes that the recv transport is connected. */
  connected(): void {
    this.#max = MAX_CONSUMERS;
    this.#fill();
  }

  /** Notes that a consumer has ended or failed. */
  ended(): void {
    this.#open -= 1;
    this.#fill();
  }

  clear(): void {
    this.#waiting.clear();
  }

  #fill(): void {
    for (const [id, producer] of this.#waiting) {
      if (this.#open >= this.#max) return;
      this.#waiting.delete(id);
      this.#open += 1;
      this.#consume(producer);
    }
  }
}
