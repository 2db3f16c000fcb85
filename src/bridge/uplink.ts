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
import { discard, LateStream, type RoutedPacket } from './late-stream.ts';
import { MIN_SENT_SAMPLES, type OpusPacket, ShortPackets } from './short-packets.ts';

/** Audio level, -dBov, from which a packet is too quiet to be missed. */
const UNMISSED_LEVEL = 55;

/** Maximum number of mutes that are told apart: packets of all of them may be held until their format is known. */
const MAX_MUTES = 8;

/** State of the producer, which exists only once there is audio for a listener behind the router: until then it costs nothing. */
type State =
  | { name: 'idle' }
  | { name: 'opening'; held: RoutedPacket[] }
  | {
      name: 'open';
      producer: PlainProducer;
      packetizer: Packetizer;
      /** Present until listeners behind the router have the state of the stream. */
      late: LateStream | undefined;
    }
  | { name: 'closed' };

/** Route to the router of a room, open while a listener is behind it. The room updates it: it is read for every packet. */
export type Route = { isOpen: boolean };

/** Mixer through which WebSocket listeners hear the peer, and the name of the peer there. */
export type HeardThere = { mixer: Pick<RoomMixer, 'receive' | 'openLateBeginning'>; peer: string };

/** Leg on which the uplink has its producer. */
type UplinkLeg = Pick<PlainLeg, 'produce' | 'isClosed'>;

export type UplinkTimings = {
  /** Time for which audio must be ahead of real time to be a fault. */
  tooFastAfterMs: number;
  /** Time for which no other producer is opened after one could not be. */
  producerRetryMs: number;
};

export type UplinkEvents = {
  /** Called with a new producer; packets flow once the promise resolves. */
  onProducer: (producerId: string) => Promise<void>;
  /** Called when the client sends faster than real time (`xoff`), or no longer does, with the waiting audio and all that was dropped for it. */
  onFlow: (state: 'xoff' | 'xon', bufferedMs: number, droppedMs: number) => void;
  /** Called when a producer could not be opened (a packet that comes at least `producerRetryMs` later opens another), or the client exceeds the limit of its rate. */
  onFault: (fault: unknown) => void;
};

/**
 * Uplink of one WebSocket peer: turns Opus packets into an RTP stream at the pace of real time. WebSocket listeners
 * receive it through a call of the mixer, listeners behind the router through the room's plain leg.
 */
export class Uplink {
  readonly #leg: () => UplinkLeg;
  readonly #clock: FrameClock;
  readonly #route: Route;
  readonly #mixer: HeardThere['mixer'];
  readonly #peer: string;
  readonly #events: UplinkEvents;
  readonly #pacer = new Pacer<OpusPacket>();
  readonly #packetizer = new Packetizer();
  /** Absent before the first short packet. */
  #short: ShortPackets | undefined;
  /** Duration of the packets that were not sent to the router since the last one sent, samples at 48 kHz. */
  #unroutedSamples = 0;
  /** True if the last packet was not sent to the producer, open or opening. */
  #hasMissed = true;
  #countedExcess = 0;
  /** Duration of all packets that were received. */
  #receivedMs = 0;
  readonly #timings: UplinkTimings;
  readonly #flow: FlowWatch;
  #state: State = { name: 'idle' };
  /** Time from which a packet may open a producer, ms. */
  #mayOpenAtMs = -Infinity;
  /** Times of arrival of what no listener may hear, ms, in order; the last one has no end while the peer is muted. */
  readonly #mutes: { fromMs: number; untilMs: number }[] = [];
  /** Last packets that were taken while the peer was not muted. */
  readonly last: LastPackets = { packets: [], atMs: -Infinity };

  constructor(
    leg: () => UplinkLeg,
    route: Route,
    { mixer, peer }: HeardThere,
    clock: FrameClock,
    timings: UplinkTimings,
    events: UplinkEvents,
  ) {
    this.#timings = timings;
    this.#flow = new FlowWatch(timings.tooFastAfterMs);
    this.#mixer = mixer;
    this.#peer = peer;
    this.#leg = leg;
    this.#route = route;
    this.#clock = clock;
    this.#events = events;
  }

  /** True while no listener may hear packets that arrive. */
  get isMuted(): boolean {
    return this.#mutes.at(-1)?.untilMs === Infinity;
  }

  /** Returns whether no listener may hear what arrived at a time: packets may have been held since. */
  isMutedAt(atMs: number): boolean {
    return this.#mutes.some(({ fromMs, untilMs }) => atMs >= fromMs && atMs < untilMs);
  }

  /** Mutes or unmutes what arrived at `sinceMs` or later; without it, all that is handed on from now on, whenever it arrived. */
  setMuted(isMuted: boolean, sinceMs = -Infinity): void {
    if (isMuted === this.isMuted) return;
    const [oldest, next] = this.#mutes;
    if (!isMuted) {
      this.#mutes.at(-1)!.untilMs = sinceMs;
      return;
    }
    this.#mutes.push({ fromMs: sinceMs, untilMs: Infinity });
    if (!oldest || !next || this.#mutes.length <= MAX_MUTES) return;
    // Sound from between the two oldest is not heard, if it is still held.
    this.#mutes.splice(0, 2, { fromMs: oldest.fromMs, untilMs: next.untilMs });
  }

  /** Duration of dropped audio: it came faster than real time, or was silence, left out to shorten the delay. */
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

  /** Sends one Opus packet as soon as it is due; it may have been held since its arrival. */
  readonly send: OpusSink = (payload, durationSamples, audioLevel, atMs) => {
    const isMuted = this.isMutedAt(atMs);
    const durationMs = durationSamples / SAMPLES_PER_MS;
    const isQuiet = isMuted || audioLevel >= UNMISSED_LEVEL;
    const nowMs = performance.now();
    const packet = {
      payload,
      durationSamples,
      durationMs,
      audioLevel,
      isQuiet,
      isSpare: false,
      gapMs: 0,
      isMuted,
    };
    this.#receivedMs += durationMs;
    this.#pacer.push(packet, atMs, nowMs);
    this.#watchFlow(atMs);
    // This closes a client that exceeds the limit.
    if (this.#state.name === 'closed') return;
    this.#sendDue(nowMs, nowMs);
    const isShort = durationSamples < MIN_SENT_SAMPLES;
    if (isShort || this.#isAwaitingTick) this.#clock.add(this.#onTick);
    if (isMuted) return;
    const { packets } = this.last;
    packets.push(payload);
    if (packets.length > DECODER_MEMORY_PACKETS) packets.shift();
    this.last.atMs = atMs;
  };

  /**
   * Opens the producer, if there are listeners behind the router, so that they are ready to receive the first
   * packet; resolves when they are ready.
   */
  async open(): Promise<void> {
    if (this.#state.name !== 'idle' || !this.#route.isOpen) return;
    const opening = { name: 'opening' as const, held: [] };
    this.#state = opening;
    await this.#openFor(opening);
  }

  /** Resets the uplink after its leg has closed, and the producer with it: the next packet opens one on the new leg. */
  reset(): void {
    if (this.#state.name !== 'closed') this.#leave({ name: 'idle' });
    this.#mayOpenAtMs = -Infinity;
  }

  /** Tells a client that resumes again to wait, if it is to: it does not know what its connection before was told. */
  tellFlow(): void {
    if (this.#flow.isOff) this.#tellFlow('xoff', performance.now());
  }

  #tellFlow(state: 'xoff' | 'xon', nowMs: number): void {
    const leadMs = this.#pacer.aheadMs(nowMs);
    const bufferedMs = Math.max(0, Math.round(leadMs));
    this.#events.onFlow(state, bufferedMs, Math.round(this.#pacer.excessMs));
  }

  /** Closes the uplink; a client that was told to wait may go on, because the next room does not know it. */
  close(): void {
    if (this.#flow.isOff && this.#state.name !== 'closed') this.#tellFlow('xon', performance.now());
    this.#leave({ name: 'closed' });
    this.#clock.remove(this.#onTick);
  }

  #leave(next: State): void {
    if (this.#state.name === 'open') {
      this.#state.late?.close();
      this.#state.producer.close();
    } else if (this.#state.name === 'opening') {
      discard(this.#state.held);
    }
    this.#state = next;
    this.#hasMissed = true;
  }

  readonly #onTick = (nowMs: number): void => {
    this.#sendDue(nowMs, performance.now());
    const isJoining = this.#short?.tick(performance.now()) === true;
    this.#watchFlow(nowMs);
    if (!isJoining && !this.#isAwaitingTick) this.#clock.remove(this.#onTick);
  };

  /** True while audio waits for its time, or a client to be told that it may go on. */
  get #isAwaitingTick(): boolean {
    return this.#pacer.bufferedMs > 0 || this.#flow.isOff;
  }

  /** @param sentAtMs sending time of the due packets; after a stall, ticks are behind it */
  #sendDue(nowMs: number, sentAtMs: number): void {
    for (let due = this.#pacer.take(nowMs); due; due = this.#pacer.take(nowMs)) {
      if (due.durationSamples < MIN_SENT_SAMPLES) {
        (this.#short ??= new ShortPackets(this.#sendPacket)).push(due, sentAtMs);
      } else {
        due.gapMs += this.#short?.endBefore(sentAtMs) ?? 0;
        this.#sendPacket(due, sentAtMs);
      }
    }
    const { excessPackets } = this.#pacer;
    counters.dropped.too_fast += excessPackets - this.#countedExcess;
    this.#countedExcess = excessPackets;
  }

  readonly #sendPacket = (packet: OpusPacket, nowMs: number): void => {
    const { payload, durationSamples, audioLevel, gapMs, isMuted } = packet;
    const gapSamples = Math.round(gapMs * SAMPLES_PER_MS);
    if (!isMuted && this.#route.isOpen && nowMs >= this.#mayOpenAtMs) {
      const beginning = this.#hasMissed ? this.#mixer.openLateBeginning(this.#peer) : undefined;
      this.#hasMissed = false;
      const routed = { payload, durationSamples, audioLevel, beginning };
      this.#sendRouted({ ...routed, gapSamples: gapSamples + this.#unroutedSamples });
      this.#unroutedSamples = 0;
    } else {
      this.#hasMissed = true;
      this.#unroutedSamples += gapSamples + durationSamples;
    }
    const heard = this.#packetizer.packetize(payload, durationSamples, audioLevel, gapSamples);
    this.#mixer.receive(this.#peer, heard, nowMs, isMuted);
  };

  #sendRouted(packet: RoutedPacket): void {
    switch (this.#state.name) {
      case 'open':
        sendOpen(this.#state, packet);
        break;
      case 'opening':
        this.#state.held.push(packet);
        break;
      case 'idle':
        this.#state = { name: 'opening', held: [packet] };
        void this.#openFor(this.#state);
        break;
      case 'closed':
        discard([packet]);
        break;
    }
  }

  #watchFlow(nowMs: number): void {
    const { excessMs } = this.#pacer;
    const leadMs = this.#pacer.aheadMs(nowMs);
    const event = this.#flow.watch(nowMs, leadMs, excessMs, this.#receivedMs);
    if (event === undefined) return;
    if (event !== 'exceeded') {
      this.#tellFlow(event, nowMs);
    } else {
      const sentence = `Audio came faster than real time for over ${this.#timings.tooFastAfterMs / 1000} s.`;
      this.#events.onFault(new PartylineError('audio_rate_exceeded', sentence));
    }
  }

  #openFor(opening: State & { name: 'opening' }): Promise<void> {
    const leg = this.#leg();
    return this.#open(opening, leg).catch((fault: unknown) => {
      if (this.#state !== opening) return;
      this.#leave({ name: 'idle' });
      // Requests of a leg that closes are rejected; audio continues on the next leg.
      if (leg.isClosed) return;
      this.#mayOpenAtMs = performance.now() + this.#timings.producerRetryMs;
      this.#events.onFault(fault);
    });
  }

  async #open(opening: { held: RoutedPacket[] }, leg: UplinkLeg): Promise<void> {
    const producer = await leg.produce();
    if (this.#state !== opening) {
      producer.close();
      return;
    }
    try {
      await this.#events.onProducer(producer.id);
    } catch (fault) {
      producer.close();
      throw fault;
    }
    if (this.#state !== opening) {
      producer.close();
      return;
    }
    const open: OpenState = {
      name: 'open',
      producer,
      packetizer: new Packetizer(),
      late: undefined,
    };
    for (const packet of opening.held) sendOpen(open, packet);
    this.#state = open;
  }
}

type OpenState = State & { name: 'open' };

function sendOpen(open: OpenState, packet: RoutedPacket): void {
  if (open.late?.isOver) open.late = undefined;
  if (packet.beginning) open.late ??= new LateStream((late) => sendRtp(open, late));
  if (open.late) open.late.send(packet);
  else sendRtp(open, packet);
}

function sendRtp(
  { producer, packetizer }: OpenState,
  { payload, durationSamples, audioLevel, gapSamples }: RoutedPacket,
): void {
  const packet = packetizer.packetize(payload, durationSamples, audioLevel, gapSamples);
  counters.routerPacketsOut += 1;
  producer.send(writeRtpPacket(packet, producer));
}
