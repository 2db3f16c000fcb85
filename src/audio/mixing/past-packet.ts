import type { MediaPacket } from '../../rtp/packet.ts';
import { emptyOpusPacket, isOpusSilence } from '../opus-packet.ts';
import type { MixPacket } from './mix-plan.ts';

/** Level of packets that nobody misses in a pause, −dBov. */
const SPARE_LEVEL = 55;

/** Packet in order of its sequence number, or an empty one in place of a lost one. */
export type PastPacket = MixPacket & {
  atMs: number;
  /** True if it came while its sender did not talk. */
  isPause: boolean;
  /** True if it is too quiet to be missed, and of a pause. */
  isSpare: boolean;
  isLost: boolean;
  /** True if the packet was sent to no listener because its sender was muted. */
  isWithheld: boolean;
};

/** Returns a replacement for the lost packet after `before`. */
export function lostAfter(before: PastPacket) {
  return {
    sequenceNumber: (before.sequenceNumber + 1) & 0xffff,
    timestamp: (before.timestamp + before.durationSamples) >>> 0,
    payload: emptyOpusPacket(before.payload),
    durationSamples: before.durationSamples,
    isLost: true,
  };
}

/** True for a packet that a decoder can do without in a pause. */
export function isSpareInPause({ audioLevel = 0, payload }: MediaPacket): boolean {
  return audioLevel >= SPARE_LEVEL || isOpusSilence(payload);
}
