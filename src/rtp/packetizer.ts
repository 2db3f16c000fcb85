import type { MediaPacket } from './packet.ts';

/** Returns a random first sequence number: not 0, nor in the upper half, where SRTP receivers guess the roll-over counter wrongly. */
const randomSequenceNumber = () => 1 + Math.floor(Math.random() * 0x7ffe);

/**
 * Makes an RTP stream of Opus packets: sequence numbers grow by one, timestamps by the packets' durations (RFC 7587 §4.1:
 * always 48 kHz), also across gaps.
 */
export class Packetizer {
  #sequenceNumber: number;
  #timestamp: number;
  #first = true;

  constructor(
    start = {
      sequenceNumber: randomSequenceNumber(),
      timestamp: Math.floor(Math.random() * 2 ** 32),
    },
  ) {
    this.#sequenceNumber = start.sequenceNumber;
    this.#timestamp = start.timestamp;
  }

  /**
   * Returns the next packet of the stream.
   * @param durationSamples duration of `payload`, samples at 48 kHz
   * @param gapSamples silence between the end of the last packet and this one, at 48 kHz; the marker is set if any
   */
  packetize(
    payload: Buffer,
    durationSamples: number,
    audioLevel: number,
    gapSamples: number,
  ): MediaPacket & { audioLevel: number } {
    this.#timestamp = (this.#timestamp + gapSamples) >>> 0;
    const packet = {
      sequenceNumber: this.#sequenceNumber,
      timestamp: this.#timestamp,
      marker: this.#first || gapSamples > 0,
      audioLevel,
      payload,
    };
    this.#first = false;
    this.#sequenceNumber = (this.#sequenceNumber + 1) & 0xffff;
    this.#timestamp = (this.#timestamp + durationSamples) >>> 0;
    return packet;
  }
}
