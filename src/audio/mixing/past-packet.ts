import type { MediaPacket } from '../../rtp/packet.ts';
import { FRAME_SAMPLES } from '../format.ts';
import { emptyOpusPacket, isOpusSilence, opusPacketSamples } from '../opus-packet.ts';
import type { MixPacket } from './mix-plan.ts';

/** Level of packets that nobody misses in a pause, −dBov. */
const SPARE_LEVEL = 55;
/** Duration of quiet packets after which a further one can be left out, samples: 120 ms. */
const SPARE_AFTER_SAMPLES = 6 * FRAME_SAMPLES;

/** Packet in order of its sequence number, or an empty one in place of a lost one. */
export type PastPacket = MixPacket & {
  /** That of the packet before, for a lost one. */
  audioLevel: number | undefined;
  atMs: number;
  /** True if it came while its sender did not talk. */
  isPause: boolean;
  /** True if decoders can do without it. */
  isSpare: boolean;
  isLost: boolean;
  /** True if the packet was sent to no listener because its sender was muted. */
  isWithheld: boolean;
};

/** Returns the part of a {@link PastPacket} that a packet which has arrived determines alone. */
export function presentOf({ sequenceNumber, timestamp, audioLevel, payload }: MediaPacket) {
  const durationSamples = opusPacketSamples(payload) ?? 0;
  return { sequenceNumber, timestamp, audioLevel, payload, durationSamples, isLost: false };
}

/** Returns a replacement for the lost packet after `before`. */
export function lostAfter(before: PastPacket) {
  return {
    sequenceNumber: (before.sequenceNumber + 1) & 0xffff,
    timestamp: (before.timestamp + before.durationSamples) >>> 0,
    audioLevel: before.audioLevel,
    payload: emptyOpusPacket(before.payload),
    durationSamples: before.durationSamples,
    isLost: true,
  };
}

/** Finds the packets of a stream that decoders can do without: quiet ones of a pause, or behind others that are quiet. */
export class SparePackets {
  #quietSamples = 0;

  /** Takes the next packet of the stream. @returns true if decoders can do without it */
  take(packet: MediaPacket | 'lost', durationSamples: number, isPause: boolean): boolean {
    const isQuiet = packet !== 'lost' && isSpareInPause(packet);
    this.#quietSamples = isQuiet ? this.#quietSamples + durationSamples : 0;
    return isQuiet && (isPause || this.#quietSamples > SPARE_AFTER_SAMPLES);
  }
}

function isSpareInPause({ audioLevel = 0, payload }: MediaPacket): boolean {
  return audioLevel >= SPARE_LEVEL || isOpusSilence(payload);
}
