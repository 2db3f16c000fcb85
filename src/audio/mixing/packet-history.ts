import { isOpusSilence } from '../opus-packet.ts';

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
