import type { StreamPacket } from '../../rtp/jitter-buffer.ts';

/** What a room's mixing half is told by the half that knows who talks and who listens. Plain data: it may cross threads. */

/** A number that stands for one speaker of a room for as long as it is mixed. */
export type SpeakerId = number;

/** A speaker who is mixed from now on. */
export type AddedSpeaker = {
  id: SpeakerId;
  /** Its last packets, the oldest first: a decoder leans on them. */
  recent: Buffer[];
  /** Somebody has heard these as they were, and must hear what follows join on. */
  isHeard: boolean;
  /** The sequence number that comes next; undefined if nothing was heard. */
  next: number | undefined;
  /** So much of the end of `recent` is played again: the end of a pause, before the word that ends it. */
  prerollSamples: number;
};

/** One sum that somebody hears: everybody who is mixed, but for some, and some louder or softer. */
export type PlannedMix = {
  /** The same for the same sum. */
  name: string;
  without: SpeakerId[];
  /** What a speaker is multiplied by, if not by 1. */
  gains: [SpeakerId, number][];
  /** What it was multiplied by until now, where that is another number: it is let go from there gradually. */
  gainsBefore: [SpeakerId, number][];
  /** The formats (docs/protocol.md, "Audio formats") in which it is heard. */
  formats: string[];
};

export type MixPlan = {
  speakers: SpeakerId[];
  /** Those of them who fall silent in the next tick, which is their last. */
  leaving: SpeakerId[];
  added: AddedSpeaker[];
  mixes: PlannedMix[];
};

/** A packet of a speaker who is mixed. */
export type MixPacket = StreamPacket & { durationSamples: number };

/** What comes out of a tick. */
export type MixOutput = {
  /** A frame of a mix, in one of its formats. */
  mixed(name: string, format: string, frame: Buffer): void;
  /** A packet of a speaker, as it was sent, at the moment at which the mixes have come to it. */
  passed(speaker: SpeakerId, packet: Buffer): void;
  /** So much of a speaker was made up, because it got lost. */
  concealed(speaker: SpeakerId, samples: number): void;
  /** A speaker pauses, if only between two words: a decoder that begins with its packets now has missed nothing. */
  paused(speaker: SpeakerId): void;
};
