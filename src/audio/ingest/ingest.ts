import type { SampleFormat } from '../format.ts';
import type { Turn } from './held-audio.ts';
import type { SoundBudget } from './sound-budget.ts';

/** Receives one Opus packet: its samples at 48 kHz, its RFC 6464 level, and the arrival time of the message that completed it. */
export type OpusSink = (
  packet: Buffer,
  durationSamples: number,
  audioLevel: number,
  atMs: number,
) => void;

/** Target of the packets of an ingest, which reads `sink` for each packet: it may be exchanged. */
export type OpusTarget = {
  sink: OpusSink;
  /** Budget of the client's sound, which all its ingests share. */
  readonly sound: SoundBudget;
  /**
   * Scheduler of work that is not done in the turn of a message, such as the encoding of sound that another thread has decoded. Absent if
   * this work is done at once.
   */
  readonly turn?: Turn;
  /**
   * Arrival times of the first message after each of the last changes of room or mute, ms: no packet contains sound from both sides of
   * one. Absent if there has been no such change.
   */
  cutsMs?: readonly number[] | undefined;
};

/** Returns true if there was a change of room or mute between the arrivals of two messages. */
export const isCutBetween = ({ cutsMs }: OpusTarget, beforeMs: number, atMs: number): boolean =>
  cutsMs?.some((cutMs) => beforeMs < cutMs && atMs >= cutMs) ?? false;

/** Conversion of a peer's binary messages on the way to its uplink: one format in, Opus packets out. */
export type Ingest = {
  /**
   * Processes one binary message of at least one byte, which arrived at `atMs`; hands on the packets that it completes.
   * @throws {PartylineError} `unsupported_audio` if the bytes are, beyond doubt, not of the format
   */
  push(message: Buffer, atMs: number): void;
  /** Skips one message that no listener may hear; the next messages must still be readable. */
  skip(message: Buffer, atMs: number): void;
  /** Returns the format of the next samples, in a file that contains it; undefined if the next bytes are not samples. */
  samplesNext?(): SamplesNext | undefined;
  /** True while a tag of a file is skipped: the next bytes contain no sound. */
  isInTag?(): boolean;
  close(): void;
};

/** Format of samples in a file, and the number of their bytes so far. */
export type SamplesNext = { format: SampleFormat; startsAtBytes: number };

export type IngestEvents = {
  /** Called with a fault that was found too late for `push` to throw. */
  onFault: (fault: unknown) => void;
  /** Called with the format of the samples in a file. */
  onInside: (format: SampleFormat) => void;
  /** Called when a frame of compressed audio has been read, which is decoded later. */
  onFrame?: () => void;
};
