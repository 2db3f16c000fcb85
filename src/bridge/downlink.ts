import type { LevelMeter } from '../audio/level-meter.ts';
import type { RoomMixer } from '../audio/mixing/room-mixer.ts';
import { boundedOpusPacket, opusPacketSamples } from '../audio/opus-packet.ts';
import { counters } from '../counters.ts';
import type { PlainConsumer } from '../media/plain-leg.ts';
import type { RoomRouter } from '../media/room-router.ts';
import { parseRtpPacket } from '../rtp/packet.ts';
import type { RateEvents, RtpBudget } from './rtp-budget.ts';

/** Duration that is charged for a packet which is no well-formed Opus, samples at 48 kHz. */
const USUAL_SAMPLES = 960;

type Heard = {
  peer: string;
  /** Order of addition: higher than that of all earlier producers. */
  order: number;
  /** Arrival time of its last packet, ms. */
  atMs: number | undefined;
  /** True if a newer producer of the peer has replaced this one, or it has sent too much. */
  isOver: boolean;
  consumer: PlainConsumer | undefined;
  meter: LevelMeter | undefined;
  /** Time since which its packets come here, ms; undefined until it is known. */
  sinceMs: number | undefined;
  /** True if its stream ran before that time. */
  ranBefore: boolean | undefined;
} & ProducerOptions;

type ProducerOptions = RateEvents & {
  /** RTP budget that all producers of the peer share. */
  readonly budget: RtpBudget;
  /** Returns true if the next packet may be from the middle of a stream: decoders must first be given some of it. */
  readonly isRunning: () => boolean;
};

/**
 * Downlink of a room: receives the audio of every producer from the router as plain RTP, and passes it to the
 * mixer. A peer that changes its connection has two producers for a while: the newest that has sent a
 * packet is heard.
 */
export class Downlink {
  readonly #router: () => RoomRouter;
  readonly #mixer: RoomMixer;
  readonly #openMeter: () => Promise<LevelMeter>;
  readonly #staysSpeaker: (peer: string) => boolean;
  /** Heard producers, by ID. */
  readonly #heard = new Map<string, Heard>();
  #added = 0;

  /**
   * @param openMeter opens a meter of the levels of one producer's packets, which may be stated wrongly or not at all
   * @param staysSpeaker returns true if a peer stays a speaker of the mixer without a producer
   */
  constructor(
    router: () => RoomRouter,
    mixer: RoomMixer,
    openMeter: () => Promise<LevelMeter>,
    staysSpeaker: (peer: string) => boolean,
  ) {
    this.#router = router;
    this.#mixer = mixer;
    this.#openMeter = openMeter;
    this.#staysSpeaker = staysSpeaker;
  }

  /**
   * Listens to a producer of `peer`, which replaces its earlier one at the first packet; resolves when no
   * further packet will be missed.
   * @param speaker number of the peer in forwarded frames
   */
  async add(
    peer: string,
    speaker: number,
    producerId: string,
    options: ProducerOptions,
  ): Promise<void> {
    this.remove(producerId);
    this.#added += 1;
    const heard: Heard = {
      peer,
      order: this.#added,
      atMs: undefined,
      isOver: false,
      consumer: undefined,
      meter: undefined,
      sinceMs: undefined,
      ranBefore: undefined,
      ...options,
    };
    this.#heard.set(producerId, heard);
    if (!this.#mixer.hasSpeaker(peer)) this.#mixer.addSpeaker(peer, speaker);
    const isWanted = () => this.#heard.get(producerId) === heard;
    try {
      const meter = await this.#openMeter();
      if (!isWanted()) {
        meter.close();
        return;
      }
      heard.meter = meter;
      const consumer = await this.#consume(producerId, heard, meter);
      heard.sinceMs = performance.now();
      heard.ranBefore = options.isRunning();
      if (isWanted()) heard.consumer = consumer;
      else consumer.close();
    } catch (fault) {
      if (isWanted()) this.remove(producerId);
      throw fault;
    }
  }

  #consume(producerId: string, heard: Heard, meter: LevelMeter): Promise<PlainConsumer> {
    const router = this.#router();
    const { peer } = heard;
    const onDatagram = (datagram: Buffer, levelExtensionId: number) => {
      if (heard.isOver) return;
      const packet = parseRtpPacket(datagram, levelExtensionId);
      counters.routerPacketsIn += 1;
      if (!packet) {
        counters.dropped.undecodable += 1;
        return;
      }
      const nowMs = performance.now();
      if (heard.atMs === undefined) this.#begin(heard, nowMs);
      heard.atMs = nowMs;
      const payload = this.#charge(heard, packet.payload, nowMs);
      if (!payload) return;
      const audioLevel = meter.levelOf(payload, packet.audioLevel);
      this.#mixer.receive(peer, { ...packet, payload, audioLevel }, nowMs);
    };
    return router.plainLeg.consume(producerId, router.rtpCapabilities, onDatagram);
  }

  /** Charges a packet, before it is decoded. @returns the packet without padding, if it may be heard */
  #charge(heard: Heard, packet: Buffer, nowMs: number): Buffer | undefined {
    const samples = opusPacketSamples(packet) ?? USUAL_SAMPLES;
    const verdict = heard.budget.charge(samples, packet.length, nowMs);
    if (heard.budget.takeWarning()) heard.onWarned();
    if (verdict === 'pass') {
      const bounded = boundedOpusPacket(packet, samples);
      if (!bounded) counters.dropped.undecodable += 1;
      return bounded;
    }
    counters.dropped.too_fast += 1;
    if (verdict === 'end') {
      heard.isOver = true;
      heard.onExceeded();
    }
    return undefined;
  }

  /** Handles the first packet of a producer: from now on the peer is heard from it, and no longer from an older one. */
  #begin({ peer, order, isRunning, ranBefore, sinceMs }: Heard, nowMs: number): void {
    for (const other of this.#heard.values()) {
      if (other.peer === peer && other.order < order) other.isOver = true;
    }
    this.#mixer.cutSpeaker(peer);
    if (ranBefore ?? isRunning()) this.#mixer.enterStream(peer, sinceMs ?? nowMs);
  }

  /** Returns the arrival time of the last packet of a producer, by `performance.now()`; undefined before the first. */
  lastPacketAtMs(producerId: string): number | undefined {
    return this.#heard.get(producerId)?.atMs;
  }

  /** Removes all producers, after the router has closed. */
  clear(): void {
    for (const producerId of this.#heard.keys()) this.remove(producerId);
  }

  remove(producerId: string): void {
    const heard = this.#heard.get(producerId);
    if (!heard) return;
    heard.consumer?.close();
    heard.meter?.close();
    this.#heard.delete(producerId);
    const { peer } = heard;
    if (!this.#staysSpeaker(peer) && !this.hears(peer)) this.#mixer.removeSpeaker(peer);
  }

  /** Stops listening to all producers of `peer`. */
  removePeer(peer: string): void {
    for (const [producerId, heard] of this.#heard) if (heard.peer === peer) this.remove(producerId);
  }

  hears(peer: string): boolean {
    return [...this.#heard.values()].some((heard) => heard.peer === peer);
  }
}
