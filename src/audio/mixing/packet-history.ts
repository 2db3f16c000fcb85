import { isOpusSilence } from '../opus-packet.ts';
import type { PastPacket } from './past-packet.ts';

/**
 * Audio, samples at 48 kHz, after which a decoder that begins in the middle of a stream has the state of one that decoded all of it:
 * the error of Opus's prediction from earlier frames halves in 20 ms, for packets of any length.
 */
const DECODER_MEMORY_SAMPLES = 8640;
/** Minimum number of packets, for packets of any length. */
const LEAST_PACKETS = 3;
/** Maximum number of packets, for packets of any length. */
const MOST_PACKETS = 128;
/** Number of consecutive silent packets that change the state of a decoder; further ones do not. */
const SILENT_PACKETS = 4;

type Past = { payload: Buffer; durationSamples: number };

/** Last packets of a stream, the oldest first: enough for a decoder to continue from. */
export class PacketHistory<Packet extends Past> {
  #packets: Packet[] = [];
  /** Duration of the packets that carry sound, samples at 48 kHz. */
  #samples = 0;

  get packets(): readonly Packet[] {
    return this.#packets;
  }

  get last(): Packet | undefined {
    return this.#packets.at(-1);
  }

  /** Packets that a decoder must decode before the next one. */
  get forDecoder(): Buffer[] {
    let silent = 0;
    const payloads: Buffer[] = [];
    for (const { payload } of this.#packets) {
      silent = isOpusSilence(payload) ? silent + 1 : 0;
      if (silent <= SILENT_PACKETS) payloads.push(payload);
    }
    return payloads;
  }

  clear(): void {
    this.#packets = [];
    this.#samples = 0;
  }

  push(packet: Packet): void {
    this.#packets.push(packet);
    this.#samples += soundIn(packet);
    while (this.#packets.length > LEAST_PACKETS) {
      const restSamples = this.#samples - soundIn(this.#packets[0]!);
      const isEnough = restSamples >= DECODER_MEMORY_SAMPLES;
      if (!isEnough && this.#packets.length <= MOST_PACKETS) return;
      this.#samples = restSamples;
      this.#packets.shift();
    }
  }
}

const soundIn = ({ payload, durationSamples }: Past) =>
  isOpusSilence(payload) ? 0 : durationSamples;

/** Last packets of a speaker, which knows those of them that the mixes have not reached. */
export class SpeakerHistory extends PacketHistory<PastPacket> {
  /** Number of packets that entered the history. */
  #count = 0;
  /** Number of packets that a mix has reached, or that have gone out as sent. */
  #passedCount = 0;

  override push(packet: PastPacket): void {
    super.push(packet);
    this.#count += 1;
  }

  /** Packets that the mixes have not reached. */
  get rest(): PastPacket[] {
    const { packets } = this;
    return packets.slice(Math.max(0, packets.length - (this.#count - this.#passedCount)));
  }

  /** Last packet that the mixes have reached. */
  get lastPassed(): PastPacket | undefined {
    return this.packets[this.packets.length - this.rest.length - 1];
  }

  /** Notes a packet that the mixes have reached. */
  pass(payload: Buffer): void {
    const { rest } = this;
    // A mix in this thread plays the packet itself, another thread a copy.
    const index = rest.findIndex(
      (past) => past.payload === payload || past.payload.equals(payload),
    );
    this.#passedCount = this.#count - rest.length + index + 1;
  }

  passAll(): void {
    this.#passedCount = this.#count;
  }

  /** Duration at the end of the history that was not withheld, samples. */
  get sinceWithheldSamples(): number {
    const from = this.packets.findLastIndex(({ isWithheld }) => isWithheld) + 1;
    return this.packets.slice(from).reduce((sum, { durationSamples }) => sum + durationSamples, 0);
  }
}
