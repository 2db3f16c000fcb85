import { emptyOpusPacket } from '../opus-packet.ts';
import type { MixPacket } from './mix-plan.ts';

/** Packet in order of its sequence number, or an empty one in place of a lost one. */
export type PastPacket = MixPacket & {
  atMs: number;
  /** True if it came while its sender did not talk. */
  isPause: boolean;
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
