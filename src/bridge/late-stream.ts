import type { LateBeginning } from '../audio/mixing/late-beginning.ts';
import { FRAME_SAMPLES } from '../audio/format.ts';

/** Encoder for the beginning of a stream, which is being opened; undefined if it cannot be opened. */
type OpeningBeginning = Promise<LateBeginning | undefined>;

export type RoutedPacket = {
  payload: Buffer;
  durationSamples: number;
  audioLevel: number;
  gapSamples: number;
  /** Present if listeners behind the router have missed the packets before this one. */
  beginning?: OpeningBeginning | undefined;
};

type State =
  /** Packets are sent unchanged. */
  | { name: 'as sent' }
  | { name: 'opening'; held: RoutedPacket[] }
  /** Packets are encoded again, because decoders have not received those before them. */
  | { name: 'beginning'; beginning: LateBeginning }
  | { name: 'closed' };

/**
 * Packets of a speaker on their way to the router. If the listeners there have missed the last ones, for example after a mute, the
 * next packets are encoded again, until decoders can continue with packets as they are.
 */
export class LateStream {
  readonly #write: (packet: RoutedPacket) => void;
  /** Silence before the next packet, samples at 48 kHz. */
  #gapSamples = 0;
  /** Audio that the encoder was given and has not returned in packets yet, samples at 48 kHz. */
  #takenSamples = 0;
  #state: State = { name: 'as sent' };

  constructor(write: (packet: RoutedPacket) => void) {
    this.#write = write;
  }

  /** True while packets are sent unchanged and need not pass through this stream. */
  get isOver(): boolean {
    return this.#state.name === 'as sent';
  }

  send(packet: RoutedPacket): void {
    const state = this.#state;
    if (state.name === 'closed') {
      discard([packet]);
    } else if (state.name === 'opening') {
      state.held.push(packet);
    } else if (packet.beginning) {
      this.#endBeginning();
      const opening: State & { name: 'opening' } = { name: 'opening', held: [packet] };
      this.#state = opening;
      void packet.beginning.then((beginning) => this.#begin(opening, beginning));
    } else if (state.name === 'beginning') {
      this.#sendAnew(packet, state.beginning);
    } else {
      this.#send(packet);
    }
  }

  close(): void {
    if (this.#state.name === 'opening') discard(this.#state.held);
    else this.#endBeginning();
    this.#state = { name: 'closed' };
  }

  #begin(opening: { held: RoutedPacket[] }, beginning: LateBeginning | undefined): void {
    if (this.#state !== opening) return;
    this.#state = beginning ? { name: 'beginning', beginning } : { name: 'as sent' };
    const [first, ...others] = opening.held;
    if (first) this.send({ ...first, beginning: undefined });
    for (const packet of others) this.send(packet);
  }

  #sendAnew(packet: RoutedPacket, beginning: LateBeginning): void {
    const { audioLevel, durationSamples } = packet;
    this.#gapSamples += packet.gapSamples;
    let payloads: Buffer[] | undefined;
    try {
      payloads = beginning.take(packet.payload);
    } catch {
      // A packet that cannot be decoded is not heard by anybody; it is sent unchanged.
    }
    if (!payloads || payloads[0] === packet.payload) {
      this.#endBeginning();
      this.#send({ ...packet, gapSamples: 0 });
      return;
    }
    this.#takenSamples += durationSamples - payloads.length * FRAME_SAMPLES;
    for (const payload of payloads) {
      this.#send({ payload, durationSamples: FRAME_SAMPLES, audioLevel, gapSamples: 0 });
    }
    if (beginning.isOver) this.#endBeginning();
  }

  #endBeginning(): void {
    if (this.#state.name !== 'beginning') return;
    const { beginning } = this.#state;
    this.#state = { name: 'as sent' };
    this.#gapSamples += this.#takenSamples;
    this.#takenSamples = 0;
    beginning.close();
  }

  #send(packet: RoutedPacket): void {
    const gapSamples = packet.gapSamples + this.#gapSamples;
    this.#gapSamples = 0;
    this.#write({ ...packet, gapSamples });
  }
}

/** Closes the encoders that belong to packets which will not be sent. */
export function discard(packets: RoutedPacket[]): void {
  for (const { beginning } of packets) void beginning?.then((opened) => opened?.close());
}
