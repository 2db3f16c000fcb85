import type { PlainLeg, PlainProducer } from '../media/plain-leg.ts';
import { MediaClock } from '../rtp/media-clock.ts';
import { Packetizer } from '../rtp/packetizer.ts';

const SAMPLES_PER_MS = 48;
/**
 * A client that says nothing for this long has paused. Less is a stall of its network or of ours: what comes late then
 * follows on, and is not taken for audio that runs ahead.
 */
const GAP_MS = 400;
/** How far ahead of real time a client's audio may run (docs/protocol.md, 4422). */
const MAX_AHEAD_MS = 200;

type OpusPacket = { payload: Buffer; durationSamples: number; levelDbov: number; gapMs: number };

/** A producer exists only once there is something to say: who only listens costs the media worker nothing. */
type State =
  | { name: 'idle' }
  | { name: 'opening'; held: OpusPacket[] }
  | { name: 'open'; producer: PlainProducer; packetizer: Packetizer }
  | { name: 'closed' };

export type UplinkEvents = {
  /** The room learns of the producer here; packets flow when this has been done. */
  onProducer: (producerId: string) => Promise<void>;
  /** The producer could not be opened. */
  onFault: (fault: unknown) => void;
};

/** The way up of one WebSocket peer: Opus packets become RTP on the room's plain leg. */
export class Uplink {
  readonly #leg: PlainLeg;
  readonly #events: UplinkEvents;
  readonly #clock = new MediaClock({ gapMs: GAP_MS, maxAheadMs: MAX_AHEAD_MS });
  #state: State = { name: 'idle' };
  /** Packets refused because they ran too far ahead of real time. */
  droppedPackets = 0;

  constructor(leg: PlainLeg, events: UplinkEvents) {
    this.#leg = leg;
    this.#events = events;
  }

  /** Sends one Opus packet of `durationSamples` at 48 kHz; holds it while the producer is being opened. */
  send(payload: Buffer, durationSamples: number, levelDbov: number): void {
    const gapMs = this.#clock.admit(performance.now(), durationSamples / SAMPLES_PER_MS);
    if (gapMs === undefined) {
      this.droppedPackets += 1;
      return;
    }
    const packet = { payload, durationSamples, levelDbov, gapMs };
    switch (this.#state.name) {
      case 'open':
        sendRtp(this.#state, packet);
        break;
      case 'opening':
        this.#state.held.push(packet);
        break;
      case 'idle':
        this.#state = { name: 'opening', held: [packet] };
        this.#open(this.#state).catch(this.#events.onFault);
        break;
      case 'closed':
        break;
    }
  }

  close(): void {
    if (this.#state.name === 'open') this.#state.producer.close();
    this.#state = { name: 'closed' };
  }

  async #open(opening: { held: OpusPacket[] }): Promise<void> {
    const producer = await this.#leg.produce();
    if (this.#state !== opening) {
      producer.close();
      return;
    }
    await this.#events.onProducer(producer.id);
    if (this.#state !== opening) {
      producer.close();
      return;
    }
    const open = { name: 'open', producer, packetizer: new Packetizer(producer) } as const;
    for (const packet of opening.held) sendRtp(open, packet);
    this.#state = open;
  }
}

function sendRtp(
  { producer, packetizer }: { producer: PlainProducer; packetizer: Packetizer },
  { payload, durationSamples, levelDbov, gapMs }: OpusPacket,
): void {
  const gapSamples = Math.round(gapMs * SAMPLES_PER_MS);
  producer.send(packetizer.packetize(payload, durationSamples, levelDbov, gapSamples));
}
