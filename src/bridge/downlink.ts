import type { LevelMeter } from '../audio/level-meter.ts';
import type { Mixer } from '../audio/mixing/mixer.ts';
import { counts } from '../counts.ts';
import type { PlainConsumer } from '../media/plain-leg.ts';
import type { RoomRouter } from '../media/room-router.ts';
import { parseRtpPacket } from '../rtp/packet.ts';

type Heard = {
  peer: string;
  consumer: PlainConsumer | undefined;
  meter: LevelMeter | undefined;
};

/** The way down: what every producer of a room says comes out of its router as plain RTP, and goes into the mixer. */
export class Downlink {
  readonly #router: () => RoomRouter;
  readonly #mixer: Mixer;
  readonly #openMeter: () => Promise<LevelMeter>;
  /** By producer; a peer has one. */
  readonly #heard = new Map<string, Heard>();

  /** @param openMeter opens what tells the levels of one producer's packets, which may be stated wrongly or not at all */
  constructor(router: () => RoomRouter, mixer: Mixer, openMeter: () => Promise<LevelMeter>) {
    this.#router = router;
    this.#mixer = mixer;
    this.#openMeter = openMeter;
  }

  /**
   * Listens to what `peer` produces, in place of what it produced before; resolves when not a packet more will be
   * missed.
   * @param speaker the number of the peer in forwarded frames
   */
  async add(peer: string, speaker: number, producerId: string): Promise<void> {
    this.removePeer(peer);
    const heard: Heard = { peer, consumer: undefined, meter: undefined };
    this.#heard.set(producerId, heard);
    this.#mixer.addSpeaker(peer, speaker);
    const isWanted = () => this.#heard.get(producerId) === heard;
    try {
      const meter = await this.#openMeter();
      if (!isWanted()) {
        meter.close();
        return;
      }
      heard.meter = meter;
      const consumer = await this.#consume(producerId, peer, meter);
      if (isWanted()) heard.consumer = consumer;
      else consumer.close();
    } catch (fault) {
      if (isWanted()) this.remove(producerId);
      throw fault;
    }
  }

  #consume(producerId: string, peer: string, meter: LevelMeter): Promise<PlainConsumer> {
    const router = this.#router();
    const onDatagram = (datagram: Buffer, levelExtensionId: number) => {
      const packet = parseRtpPacket(datagram, levelExtensionId);
      counts.routerPacketsIn += 1;
      if (!packet) {
        counts.dropped.undecodable += 1;
        return;
      }
      const audioLevel = meter.levelOf(packet.payload, packet.audioLevel);
      this.#mixer.receive(peer, { ...packet, audioLevel }, performance.now());
    };
    return router.plainLeg.consume(producerId, router.rtpCapabilities, onDatagram);
  }

  /** The router has gone, and with it all that was heard out of it. */
  clear(): void {
    for (const producerId of this.#heard.keys()) this.remove(producerId);
  }

  remove(producerId: string): void {
    const heard = this.#heard.get(producerId);
    if (!heard) return;
    heard.consumer?.close();
    heard.meter?.close();
    this.#heard.delete(producerId);
    this.#mixer.removeSpeaker(heard.peer);
  }

  /** Stops listening to whatever `peer` produces. */
  removePeer(peer: string): void {
    for (const [producerId, heard] of this.#heard) if (heard.peer === peer) this.remove(producerId);
  }

  hears(peer: string): boolean {
    return [...this.#heard.values()].some((heard) => heard.peer === peer);
  }
}
