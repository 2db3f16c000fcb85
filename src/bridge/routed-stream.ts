import { counters } from '../counters.ts';
import type { PlainProducer } from '../media/plain-leg.ts';
import { writeRtpPacket } from '../rtp/packet.ts';
import { Packetizer } from '../rtp/packetizer.ts';
import { LateStream, type RoutedPacket } from './late-stream.ts';

/** RTP of one producer, for the listeners behind the router. */
export class RoutedStream {
  readonly #producer: PlainProducer;
  readonly #packetizer = new Packetizer();
  /** Present until listeners behind the router have the state of the stream. */
  #late: LateStream | undefined;

  /** @param producer is closed with the stream */
  constructor(producer: PlainProducer) {
    this.#producer = producer;
  }

  send(packet: RoutedPacket): void {
    if (this.#late?.isOver) this.#late = undefined;
    if (packet.beginning) this.#late ??= new LateStream((late) => this.#sendRtp(late));
    if (this.#late) this.#late.send(packet);
    else this.#sendRtp(packet);
  }

  close(): void {
    this.#late?.close();
    this.#producer.close();
  }

  #sendRtp({ payload, durationSamples, audioLevel, gapSamples }: RoutedPacket): void {
    const packet = this.#packetizer.packetize(payload, durationSamples, audioLevel, gapSamples);
    counters.routerPacketsOut += 1;
    this.#producer.send(writeRtpPacket(packet, this.#producer));
  }
}
