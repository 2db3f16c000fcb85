import type { Pace, StreamPacket } from '../../rtp/jitter-buffer.ts';

/**
 * Commands from the mixer of a room, which knows speakers and listeners, to its mix engine. Plain data: it may cross
 * threads.
 */

/** Number of a speaker of a room: assigned by `RoomMixer.addSpeaker`, and valid until `RoomMixer.removeSpeaker`. */
export type SpeakerId = number;

/** Speaker that is mixed from this plan on. */
export type AddedSpeaker = {
  id: SpeakerId;
  /** Last packets of the speaker, oldest first; a decoder needs them as history. */
  recent: Buffer[];
  /** True if a listener has heard these packets directly, and the mix must continue from them. */
  isHeard: boolean;
  /** Next sequence number; undefined if no packet was heard. */
  next: number | undefined;
  /** Arrival pattern of its packets; undefined before the first. */
  pace: Pace | undefined;
  /** Samples at the end of `recent` that are played (again): the end of a pause, before the word that ends it, or what a mix has not reached. */
  prerollSamples: number;
};

/** One mix: the sum of the mixed speakers except those left out, with gains. */
export type PlannedMix = {
  /** Equal for equal sums. */
  name: string;
  without: SpeakerId[];
  /** Gains by speaker, where they are not 1. */
  gains: [SpeakerId, number][];
  /** Previous gains by speaker, where they differ: the gain changes gradually from there. */
  gainsBefore: [SpeakerId, number][];
  /** Formats (docs/protocol.md, "Audio formats") in which it is heard. */
  formats: string[];
  /** Present if Opus listeners have heard something else until now, or nothing: each of these once. */
  joinedFrom?: (HeardSource | 'nothing')[];
};

/** Returns the name of a sum, equal for all listeners that hear the same. */
export const nameOf = ({ without, gains }: Pick<PlannedMix, 'without' | 'gains'>): string =>
  [without.join(), gains.map((gain) => gain.join('*')).join()].join(' ');

/** Sound that listeners have heard until now: the packets of a speaker as sent, or the mix of this name. */
export type HeardSource = { speaker: SpeakerId } | { mix: string };

export type MixPlan = {
  speakers: SpeakerId[];
  /** Speakers among them that end in the next tick. */
  leaving: SpeakerId[];
  added: AddedSpeaker[];
  mixes: PlannedMix[];
};

/** Packet of a mixed speaker. */
export type MixPacket = StreamPacket & { durationSamples: number };

/** Reason for which a decoder may begin with the packets of a speaker; `end`: a long packet ends in this tick, and nothing else is known. */
export type Opening = 'pause' | 'alike' | 'end';

/** Output of a tick. A mixing thread gives the time at which its output is there, ms of the monotonic clock; otherwise it is that of the tick. */
export type MixOutput = {
  /** Called with a frame of a mix, in one of its formats. */
  mixed(name: string, format: string, frame: Buffer, atMs?: number): void;
  /**
   * Called with a packet of a speaker, as sent, when the mixes have reached it.
   * @param restSamples length of its end that they have not reached, samples
   */
  passed(speaker: SpeakerId, packet: Buffer, restSamples: number, atMs?: number): void;
  /** Called with the number of samples of a speaker that were concealed, because packets were lost. */
  concealed(speaker: SpeakerId, samples: number): void;
  /**
   * Called when a decoder may begin with the packets of a speaker without missing audible history: the speaker pauses, if only between two
   * words, or `alike`: the next sound resembles the last one heard. `end` allows it only to listeners that have waited too long.
   */
  paused(speaker: SpeakerId, why: Opening): void;
};
