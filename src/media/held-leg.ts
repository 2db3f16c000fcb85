import type { Producer } from 'mediasoup/types';

/** State of a WebRTC leg that carries no audio yet, in either direction, because the peer's other way still does. */
export class HeldLeg {
  /** Consumers that the browser has asked to be resumed. */
  readonly wanted = new Set<string>();
  /** Called when this state, or that of the transports, has changed. */
  readonly onChange: () => void;
  #hasPacket = false;

  constructor(onChange: () => void) {
    this.onChange = onChange;
  }

  /** True once a packet of the browser's producer has come. */
  get hasPacket(): boolean {
    return this.#hasPacket;
  }

  want(consumerId: string): void {
    this.wanted.add(consumerId);
    this.onChange();
  }

  /**
   * Begins to watch for the first packet, which the media worker reports even if the producer is paused.
   * Resolves when the media worker has also told whether one came before.
   */
  async awaitPacket(producer: Producer): Promise<void> {
    producer.on('score', (scores) => this.#note(scores.length));
    this.#note((await producer.getStats()).length);
  }

  #note(streams: number): void {
    if (streams === 0 || this.#hasPacket) return;
    this.#hasPacket = true;
    this.onChange();
  }
}
