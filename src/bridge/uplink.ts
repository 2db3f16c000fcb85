import type { FrameClock } from '../audio/clock.ts';
import type { RoomMixer } from '../audio/mixing/room-mixer.ts';
import type { OpusSink } from '../audio/ingest/ingest.ts';
import type { LastPackets } from '../audio/ingest/splice.ts';
import { DECODER_MEMORY_PACKETS } from '../audio/opus-codec.ts';
import { counters } from '../counters.ts';
import type { PlainLeg, PlainProducer } from '../media/plain-leg.ts';
import { PartylineError } from '../protocol/errors.ts';
import { SAMPLES_PER_MS } from '../rtp/clock-rate.ts';
import { Pacer } from '../rtp/pacer.ts';
import { writeRtpPacket } from '../rtp/packet.ts';
import { Packetizer } from '../rtp/packetizer.ts';
import { FlowWatch } from './flow-watch.ts';

/** Audio level from which a packet is too quiet to be missed. */
const UNMISSED_LEVEL = 55;
type OpusPacket = {
  payload: Buffer;
  durationSamples: number;
  durationMs: number;
  audioLevel: number;
  isQuiet: boolean;
  gapMs: number;
  /** The sender is muted. */
  isMuted: boolean;
};

type RoutedPacket = Pick<OpusPacket, 'payload' | 'durationSamples' | 'audioLevel'> & {
  gapSamples: number;
};

/** A producer exists only once there is audio for a listener behind the router: until then it costs nothing. */
type State =
  | { name: 'idle' }
  | { name: 'opening'; held: RoutedPacket[] }
  | { name: 'open'; producer: PlainProducer; packetizer: Packetizer }
  | { name: 'closed' };

/** Open while somebody listens behind the router of a room. The room keeps it up to date: it is read for every packet. */
export type Route = { isOpen: boolean };

/** The mixer through which WebSocket listeners hear the peer, and the name of the peer there. */
export type HeardThere = { mixer: Pick<RoomMixer, 'receive'>; peer: string };

export type UplinkEvents = {
  /** The room learns of the producer here; packets flow when this has been done. */
  onProducer: (producerId: string) => Promise<void>;
  /** The client sends faster than real time, or no longer does; with what waits, and all that was left out so far. */
  onFlow: (state: 'xoff' | 'xon', bufferedMs: number, droppedMs: number) => void;
  /** The producer could not be opened, or the client is out of all measure. */
  onFault: (fault: unknown) => void;
};

/**
 * The way up of one WebSocket peer: Opus packets become a stream of RTP at the pace of real time. It goes to those who
 * listen over WebSockets by a plain call, and to the room's plain leg while somebody listens behind its router.
 */
export class Uplink {
  readonly #leg: () => PlainLeg;
  readonly #clock: FrameClock;
  readonly #route: Route;
  readonly #mixer: HeardThere['mixer'];
  readonly #peer: string;
  readonly #events: UplinkEvents;
  readonly #pacer = new Pacer<OpusPacket>();
  readonly #packetizer = new Packetizer();
  /** Duration of the packets that were not sent to the router since the last one that was. */
  #unroutedSamples = 0;
  #countedDrops = 0;
  readonly #flow = new FlowWatch();
  #state: State = { name: 'idle' };
  /** True while nobody is to hear the packets that come. */
  isMuted = false;
  /** The last packets that were taken while the peer was not muted. */
  readonly last: LastPackets = { packets: [], atMs: -Infinity };

  constructor(
    leg: () => PlainLeg,
    route: Route,
    { mixer, peer }: HeardThere,
    clock: FrameClock,
    events: UplinkEvents,
  ) {
    this.#mixer = mixer;
    this.#peer = peer;
    this.#leg = leg;
    this.#route = route;
    this.#clock = clock;
    this.#events = events;
  }

  /** Duration of audio that was dropped because it came faster than real time. */
  get droppedMs(): number {
    return this.#pacer.droppedMs;
  }

  /** Duration of audio that waits for its time. */
  get bufferedMs(): number {
    return this.#pacer.bufferedMs;
  }

  /** Deviation of the client's clock from this one, parts per million; positive if it is faster. */
  get driftPpm(): number {
    return this.#pacer.driftPpm;
  }

  /** Sends one Opus packet as soon as it is due; it may have been held since it came. */
  readonly send: OpusSink = (payload, durationSamples, audioLevel, atMs) => {
    const { isMuted } = this;
    const durationMs = durationSamples / SAMPLES_PER_MS;
    const isQuiet = isMuted || audioLevel >= UNMISSED_LEVEL;
    const nowMs = performance.now();
    const packet = { payload, durationSamples, durationMs, audioLevel, isQuiet, gapMs: 0, isMuted };
    this.#pacer.push(packet, atMs, nowMs);
    this.#watchFlow(atMs);
    // This closes a client that exceeds the limit.
    if (this.#state.name === 'closed') return;
    this.#sendDue(nowMs, nowMs);
    if (this.#pacer.bufferedMs > 0) this.#clock.add(this.#onTick);
    if (isMuted) return;
    const { packets } = this.last;
    packets.push(payload);
    if (packets.length > DECODER_MEMORY_PACKETS) packets.shift();
    this.last.atMs = atMs;
  };

  /**
   * Opens the producer, if somebody listens behind the router, so that they are ready to hear the first
   * packet; resolves when they are.
   */
  async open(): Promise<void> {
    if (this.#state.name !== 'idle' || !this.#route.isOpen) return;
    const opening = { name: 'opening' as const, held: [] };
    this.#state = opening;
    await this.#openFor(opening);
  }

  /** The leg has gone, and the producer with it: the next packet opens one on the new leg. */
  reset(): void {
    if (this.#state.name !== 'closed') this.#state = { name: 'idle' };
  }

  close(): void {
    if (this.#state.name === 'open') this.#state.producer.close();
    this.#state = { name: 'closed' };
    this.#clock.remove(this.#onTick);
  }

  readonly #onTick = (nowMs: number): void => {
    this.#sendDue(nowMs, performance.now());
    this.#watchFlow(nowMs);
    if (this.#pacer.bufferedMs <= 0) this.#clock.remove(this.#onTick);
  };

  /** @param sentAtMs when the packets that are due go out; after a stall, ticks are behind that */
  #sendDue(nowMs: number, sentAtMs: number): void {
    for (let due = this.#pacer.take(nowMs); due; due = this.#pacer.take(nowMs)) {
      this.#sendPacket(due, sentAtMs);
    }
    const { droppedPackets } = this.#pacer;
    counters.dropped.too_fast += droppedPackets - this.#countedDrops;
    this.#countedDrops = droppedPackets;
  }

  #sendPacket(packet: OpusPacket, nowMs: number): void {
    const { payload, durationSamples, audioLevel, gapMs, isMuted } = packet;
    const gapSamples = Math.round(gapMs * SAMPLES_PER_MS);
    if (!isMuted && this.#route.isOpen) {
      this.#sendRouted({ ...packet, gapSamples: gapSamples + this.#unroutedSamples });
      this.#unroutedSamples = 0;
    } else {
      this.#unroutedSamples += gapSamples + durationSamples;
    }
    const heard = this.#packetizer.packetize(payload, durationSamples, audioLevel, gapSamples);
    this.#mixer.receive(this.#peer, heard, nowMs, isMuted);
  }

  #sendRouted(packet: RoutedPacket): void {
    switch (this.#state.name) {
      case 'open':
        sendRtp(this.#state, packet);
        break;
      case 'opening':
        this.#state.held.push(packet);
        break;
      case 'idle':
        this.#state = { name: 'opening', held: [packet] };
        void this.#openFor(this.#state);
        break;
      case 'closed':
        break;
    }
  }

  #watchFlow(nowMs: number): void {
    const leadMs = this.#pacer.aheadMs(nowMs);
    const event = this.#flow.watch(nowMs, leadMs, this.#pacer.droppedMs);
    if (event === undefined) return;
    if (event !== 'exceeded') {
      this.#events.onFlow(event, Math.round(leadMs), Math.round(this.#pacer.droppedMs));
    } else {
      const sentence = 'Audio came faster than real time for over 5 s.';
      this.#events.onFault(new PartylineError('audio_rate_exceeded', sentence));
    }
  }

  #openFor(opening: State & { name: 'opening' }): Promise<void> {
    const leg = this.#leg();
    return this.#open(opening, leg).catch((fault: unknown) => {
      if (this.#state !== opening) return;
      // Requests of a leg that closes are rejected; audio continues on the next leg.
      if (leg.isClosed) this.#state = { name: 'idle' };
      else this.#events.onFault(fault);
    });
  }

  async #open(opening: { held: RoutedPacket[] }, leg: PlainLeg): Promise<void> {
    const producer = await leg.produce();
    if (this.#state !== opening) {
      producer.close();
      return;
    }
    await this.#events.onProducer(producer.id);
    if (this.#state !== opening) {
      producer.close();
      return;
    }
    const open = { name: 'open', producer, packetizer: new Packetizer() } as const;
    for (const packet of opening.held) sendRtp(open, packet);
    this.#state = open;
  }
}

function sendRtp(
  { producer, packetizer }: { producer: PlainProducer; packetizer: Packetizer },
  { payload, durationSamples, audioLevel, gapSamples }: RoutedPacket,
): void {
  const packet = packetizer.packetize(payload, durationSamples, audioLevel, gapSamples);
  counters.routerPacketsOut += 1;
  producer.send(writeRtpPacket(packet, producer));
}
