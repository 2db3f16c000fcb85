import type { Pace, StreamPacket } from '../../rtp/jitter-buffer.ts';

/**
 * Commands for the mixing half of a room, from the half that knows speakers and listeners. Plain data: it may cross
 * threads.
 */

/** A number that stands for one speaker of a room for as long as it is mixed. */
export type SpeakerId = number;

/** A speaker who is mixed from now on. */
export type AddedSpeaker = {
  id: SpeakerId;
  /** Its last packets, the oldest first: a decoder leans on them. */
  recent: Buffer[];
  /** True if a listener has heard these packets directly, and the mix must continue from them. */
  isHeard: boolean;
  /** The sequence number that comes next; undefined if nothing was heard. */
  next: number | undefined;
  /** How its packets have come until now; undefined if nothing has. */
  pace: Pace | undefined;
  /** Samples at the end of `recent` that are played again: the end of a pause, before the word that ends it. */
  prerollSamples: number;
};

/** One sum that somebody hears: everybody who is mixed, but for some, and some louder or softer. */
export type PlannedMix = {
  /** The same for the same sum. */
  name: string;
  without: SpeakerId[];
  /** Gains by speaker, where they are not 1. */
  gains: [SpeakerId, number][];
  /** Former gains by speaker, where they differ: the gain moves from there gradually. */
  gainsBefore: [SpeakerId, number][];
  /** The formats (docs/protocol.md, "Audio formats") in which it is heard. */
  formats: string[];
  /** Present where listeners to Opus have heard something else until now. */
  joins?: Join;
};

/** Sound that listeners have heard until now: the packets of a speaker as they were sent, or the mix of this name. */
export type Join = { speaker: SpeakerId } | { mix: string };

export type MixPlan = {
  speakers: SpeakerId[];
  /** Speakers among them that end in the next tick. */
  leaving: SpeakerId[];
  added: AddedSpeaker[];
  mixes: PlannedMix[];
};

/** A packet of a speaker who is mixed. */
export type MixPacket = StreamPacket & { durationSamples: number };

/** Why a decoder may begin with the packets of a speaker. */
export type Opening = 'pause' | 'alike';

/** Output of a tick. */
export type MixOutput = {
  /** A frame of a mix, in one of its formats. */
  mixed(name: string, format: string, frame: Buffer): void;
  /** A packet of a speaker, as it was sent, at the moment at which the mixes have come to it. */
  passed(speaker: SpeakerId, packet: Buffer): void;
  /** Called with the number of samples of a speaker that were concealed, because packets were lost. */
  concealed(speaker: SpeakerId, samples: number): void;
  /**
   * A decoder that begins with the packets of a speaker now has missed nothing that is heard: the speaker pauses, if only between two
   * words, or `alike`: what comes next resembles what has been heard last.
   */
  paused(speaker: SpeakerId, why: Opening): void;
};
