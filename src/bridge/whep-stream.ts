import type { FrameClock } from '../audio/clock.ts';
import { opusPacketSamples } from '../audio/opus-packet.ts';
import { counters } from '../counters.ts';
import type { PlainProducer } from '../media/plain-leg.ts';
import { ContinuousStream } from '../rtp/continuous-stream.ts';
import { writeRtpPacket } from '../rtp/packet.ts';

/** Opus from the mixer to one WHEP player, as a continuous RTP stream. */
export class WhepStream {
  readonly #clock: FrameClock;
  readonly #stream: ContinuousStream;

  /** @param isSparse true if the client asked for discontinuous transmission */
  constructor(clock: FrameClock, feed: PlainProducer, isSparse: boolean) {
    this.#clock = clock;
    const send = (packet: Parameters<typeof writeRtpPacket>[0]) => {
      counters.routerPacketsOut += 1;
      feed.send(writeRtpPacket(packet, feed));
    };
    this.#stream = new ContinuousStream(send, isSparse, performance.now());
    clock.add(this.#onTick);
  }

  /** Sends one Opus packet. The hot path: runs for each packet to each client. */
  send(packet: Buffer): void {
    const samples = opusPacketSamples(packet);
    if (samples !== undefined) this.#stream.push(packet, samples, performance.now());
  }

  close(): void {
    this.#clock.remove(this.#onTick);
  }

  readonly #onTick = (nowMs: number): void => this.#stream.tick(nowMs);
}
