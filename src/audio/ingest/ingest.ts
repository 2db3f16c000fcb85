import type { Codecs } from '../codecs.ts';
import { ContainerIngest } from './container-ingest.ts';
import {
  isCompressed,
  isContainer,
  isSamples,
  type KnownFormat,
  type SampleFormat,
} from '../format.ts';
import { DECODED_FORMATS } from './decoded-formats.ts';
import { DecodedIngest } from './decoded-ingest.ts';
import type { LastPackets } from './joint.ts';
import { OpusIngest } from './opus-ingest.ts';
import { SampleIngest } from './sample-ingest.ts';
import { WavIngest } from './wav-ingest.ts';

/** Takes one Opus packet: what it holds at 48 kHz, its RFC 6464 level, and when the message came that completed it. */
export type OpusSink = (
  packet: Buffer,
  durationSamples: number,
  audioLevel: number,
  atMs: number,
) => void;

/** What a peer's binary messages become on their way to its uplink: one format in, Opus packets out. */
export type Ingest = {
  /**
   * Takes one binary message of at least one byte, that came at `atMs`; hands on as many packets as it completes.
   * @throws {PartylineError} `unsupported_audio` when the bytes are, beyond doubt, not of the format
   */
  push(message: Buffer, atMs: number): void;
  /** Passes one message over that nobody is to hear: those that follow must be read all the same. */
  skip(message: Buffer, atMs: number): void;
  close(): void;
};

export type IngestEvents = {
  /** What `push` cannot throw, because it was found out later. */
  onFault: (fault: unknown) => void;
  /** A file says what is in it. */
  onInside: (format: SampleFormat) => void;
};

/**
 * Opens the ingest for a format.
 * @param before what was handed on before this ingest takes over, in the middle of a sound
 */
export async function createIngest(
  format: KnownFormat,
  codecs: Codecs,
  sink: OpusSink,
  events: IngestEvents,
  before?: LastPackets,
): Promise<Ingest> {
  if (isSamples(format)) return SampleIngest.open(format, codecs, sink, before);
  if (format.codec === 'wav') return new WavIngest(codecs, sink, events, before);
  if (isCompressed(format)) {
    const decoded = { ...DECODED_FORMATS[format.codec], name: format.codec };
    return new DecodedIngest(decoded, codecs, sink, events, before);
  }
  const packets = new OpusIngest(await codecs.opus.createDecoder(), sink);
  return isContainer(format) ? new ContainerIngest(format.codec, packets, events.onFault) : packets;
}
