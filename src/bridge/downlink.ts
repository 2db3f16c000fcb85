import type { Mixer } from '../audio/mixing/mixer.ts';
import { counts } from '../counts.ts';
import type { PlainConsumer } from '../media/plain-leg.ts';
import type { RoomRouter } from '../media/room-router.ts';
import { parseRtpPacket } from '../rtp/packet.ts';

type Heard = { peer: string; consumer: PlainConsumer | undefined };

/** The way down: what every producer of a room says comes out of its router as plain RTP, and goes into the mixer. */
export class Downlink {
  readonly #router: () => RoomRouter;
  readonly #mixer: Mixer;
  /** By producer; a peer has one. */
  readonly #heard = new Map<string, Heard>();

  constructor(router: () => RoomRouter, mixer: Mixer) {
    this.#router = router;
    this.#mixer = mixer;
  }

  /**
   * Listens to what `peer` produces, in place of what it produced before; resolves when not a packet more will be
   * missed.
   * @param speaker the number of the peer in forwarded frames
   */
  async add(peer: string, speaker: number, producerId: string): Promise<void> {
    this.removePeer(peer);
    const heard: Heard = { peer, consumer: undefined };
    this.#heard.set(producerId, heard);
    this.#mixer.addSpeaker(peer, speaker);
    const isWanted = () => this.#heard.get(producerId) === heard;
    try {
      const consumer = await this.#consume(producerId, peer);
      if (isWanted()) heard.consumer = consumer;
      else consumer.close();
    } catch (fault) {
      if (isWanted()) this.remove(producerId);
      throw fault;
    }
  }

  #consume(producerId: string, peer: string): Promise<PlainConsumer> {
    const router = this.#router();
    const onDatagram = (datagram: Buffer, levelExtensionId: number) => {
      const packet = parseRtpPacket(datagram, levelExtensionId);
      counts.routerPacketsIn += 1;
      if (packet) this.#mixer.receive(peer, packet, performance.now());
      else counts.dropped.undecodable += 1;
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
