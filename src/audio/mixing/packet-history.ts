import { isOpusSilence } from '../opus-packet.ts';

/**
 * Audio after which a decoder that begins in the middle of a stream is where one is that has decoded all of it: the
 * error of what Opus predicts from earlier frames halves in 20 ms, in whatever packets they come.
 */
const DECODER_MEMORY_SAMPLES = 8640;
/** However long they are. */
const LEAST_PACKETS = 3;
/** However little is in them. */
const MOST_PACKETS = 128;
/** Number of silent packets in a row that change the state of a decoder; further ones do not. */
const SILENT_PACKETS = 4;

type Past = { payload: Buffer; durationSamples: number };

/** The last packets of a stream, the oldest first: enough for a decoder to go on from. */
export class PacketHistory<Packet extends Past> {
  #packets: Packet[] = [];
  /** In packets that carry sound. */
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
