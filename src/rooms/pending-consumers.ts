/**
 * Consumers of a browser whose recv transport is not connected yet: mediasoup-client connects it for the first one, so there must
 * be some; more cost the media worker work for a browser that may never come.
 */
const MAX_UNCONNECTED = 4;
/** Consumers of one browser. More speakers than that are given to it as others cease. */
const MAX_CONSUMERS = 250;

/** Producers that a browser is to hear, until there is room for a consumer of each. Pure. */
export class PendingConsumers<Producer extends { id: string }> {
  readonly #consume: (producer: Producer) => void;
  readonly #waiting = new Map<string, Producer>();
  #max = MAX_UNCONNECTED;
  #open = 0;

  /** @param consume makes a consumer; {@link ended} is to be called when it has ended, or could not be made */
  constructor(consume: (producer: Producer) => void) {
    this.#consume = consume;
  }

  add(producer: Producer): void {
    this.#waiting.set(producer.id, producer);
    this.#fill();
  }

  /** The recv transport is connected. */
  connected(): void {
    this.#max = MAX_CONSUMERS;
    this.#fill();
  }

  /** A consumer has ended, or was never made. */
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
