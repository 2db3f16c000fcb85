import type { Producer } from 'mediasoup/types';

/** State of a WebRTC leg by which nothing goes yet, in either direction: another way of the same peer carries its sound. */
export class HeldLeg {
  /** Consumers that the browser has asked to be resumed. */
  readonly wanted = new Set<string>();
  /** Called when anything here, or the state of the transports, has changed. */
  readonly onChange: () => void;
  #hasPacket = false;

  constructor(onChange: () => void) {
    this.onChange = onChange;
  }

  /** True once a packet of what the browser produces has come. */
  get hasPacket(): boolean {
    return this.#hasPacket;
  }

  want(consumerId: string): void {
    this.wanted.add(consumerId);
    this.onChange();
  }

  /**
   * Awaits the first packet: the media worker tells of it, also where the producer is paused; of one that came at once it must be asked.
   * Resolves when it has been asked.
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
