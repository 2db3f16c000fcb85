import type { SampleFormat } from '../format.ts';

/** Takes one Opus packet: what it holds at 48 kHz, its RFC 6464 level, and when the message came that completed it. */
export type OpusSink = (
  packet: Buffer,
  durationSamples: number,
  audioLevel: number,
  atMs: number,
) => void;

/** Holder of a sink that may change: ingests call the sink directly. */
export type OpusOutlet = { sink: OpusSink };

/** Conversion of a peer's binary messages on the way to its uplink: one format in, Opus packets out. */
export type Ingest = {
  /**
   * Takes one binary message of at least one byte, that came at `atMs`; hands on as many packets as it completes.
   * @throws {PartylineError} `unsupported_audio` when the bytes are, beyond doubt, not of the format
   */
  push(message: Buffer, atMs: number): void;
  /** Passes one message over that nobody is to hear: those that follow must be read all the same. */
  skip(message: Buffer, atMs: number): void;
  /** Returns the format of the samples that come next, in a file that tells it; undefined if something else comes. */
  samplesNext?(): SamplesNext | undefined;
  /** True while a tag of a file is passed over: there is no sound in what comes next. */
  isInTag?(): boolean;
  close(): void;
};

/** Format of samples in a file, and the number of bytes of them so far. */
export type SamplesNext = { format: SampleFormat; startsAtBytes: number };

export type IngestEvents = {
  /** Called with a fault that was found too late for `push` to throw. */
  onFault: (fault: unknown) => void;
  /** A file says what is in it. */
  onInside: (format: SampleFormat) => void;
};
