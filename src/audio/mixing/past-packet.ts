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

/** State of a speaker when a packet enters the history. */
type Circumstances = Pick<PastPacket, 'atMs' | 'isPause' | 'isWithheld'>;

/** Makes the past packets of one stream, and finds those that decoders can do without: quiet ones of a pause, or behind others that are quiet. */
export class PastPackets {
  #quietSamples = 0;
  /** Last packet that arrived, and its duration: it is nearly always the next one, whose duration need not be computed again. */
  #arrived: MediaPacket | undefined;
  #arrivedSamples = 0;

  /** Notes a packet that arrived, in order or not. */
  note(packet: MediaPacket, durationSamples = samplesOf(packet)): void {
    this.#arrived = packet;
    this.#arrivedSamples = durationSamples;
  }

  /**
   * Takes the next packet of the stream.
   * @param before the one before it; a lost packet has one
   */
  take(
    next: MediaPacket | 'lost',
    before: PastPacket | undefined,
    { atMs, isPause, isWithheld }: Circumstances,
  ): PastPacket {
    const isLost = next === 'lost';
    const { sequenceNumber, timestamp, audioLevel, payload } = isLost ? lostAfter(before!) : next;
    const durationSamples = isLost ? before!.durationSamples : this.#samplesOf(next);
    const isSpare = this.#isSpare(next, durationSamples, isPause);
    return {
      sequenceNumber,
      timestamp,
      audioLevel,
      payload,
      durationSamples,
      atMs,
      isPause,
      isSpare,
      isLost,
      isWithheld,
    };
  }

  #samplesOf(packet: MediaPacket): number {
    return packet === this.#arrived ? this.#arrivedSamples : samplesOf(packet);
  }

  #isSpare(packet: MediaPacket | 'lost', durationSamples: number, isPause: boolean): boolean {
    const isQuiet = packet !== 'lost' && isSpareInPause(packet);
    this.#quietSamples = isQuiet ? this.#quietSamples + durationSamples : 0;
    return isQuiet && (isPause || this.#quietSamples > SPARE_AFTER_SAMPLES);
  }
}

const samplesOf = ({ payload }: MediaPacket) => opusPacketSamples(payload) ?? 0;

/** Returns a replacement for the lost packet after `before`. */
const lostAfter = (before: PastPacket) => ({
  sequenceNumber: (before.sequenceNumber + 1) & 0xffff,
  timestamp: (before.timestamp + before.durationSamples) >>> 0,
  audioLevel: before.audioLevel,
  payload: emptyOpusPacket(before.payload),
});

function isSpareInPause({ audioLevel = 0, payload }: MediaPacket): boolean {
  return audioLevel >= SPARE_LEVEL || isOpusSilence(payload);
}
