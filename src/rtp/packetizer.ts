import { writeRtpPacket } from './packet.ts';

/** The random start keeps clear of 0 and of the upper half, where SRTP receivers guess the roll-over counter wrongly. */
const randomSequenceNumber = () => 1 + Math.floor(Math.random() * 0x7ffe);

/**
 * One RTP stream out of Opus packets: sequence numbers by one, timestamps by what the packets hold (RFC 7587 §4.1:
 * always 48 kHz), also across gaps.
 */
export class Packetizer {
  readonly ssrc: number;
  readonly #payloadType: number;
  readonly #levelExtensionId: number;
  #sequenceNumber: number;
  #timestamp: number;
  #first = true;

  constructor(
    stream: { ssrc: number; payloadType: number; levelExtensionId: number },
    start = {
      sequenceNumber: randomSequenceNumber(),
      timestamp: Math.floor(Math.random() * 2 ** 32),
    },
  ) {
    this.ssrc = stream.ssrc;
    this.#payloadType = stream.payloadType;
    this.#levelExtensionId = stream.levelExtensionId;
    this.#sequenceNumber = start.sequenceNumber;
    this.#timestamp = start.timestamp;
  }

  /**
   * The next packet of the stream.
   * @param durationSamples what `payload` holds, at 48 kHz
   * @param gapSamples silence between the end of the last packet and this one, at 48 kHz; the marker is set if any
   */
  packetize(
    payload: Buffer,
    durationSamples: number,
    levelDbov: number,
    gapSamples: number,
  ): Buffer {
    this.#timestamp = (this.#timestamp + gapSamples) >>> 0;
    const datagram = writeRtpPacket(
      {
        ssrc: this.ssrc,
        sequenceNumber: this.#sequenceNumber,
        timestamp: this.#timestamp,
        payloadType: this.#payloadType,
        marker: this.#first || gapSamples > 0,
        levelDbov,
        payload,
      },
      this.#levelExtensionId,
    );
    this.#first = false;
    this.#sequenceNumber = (this.#sequenceNumber + 1) & 0xffff;
    this.#timestamp = (this.#timestamp + durationSamples) >>> 0;
    return datagram;
  }
}
