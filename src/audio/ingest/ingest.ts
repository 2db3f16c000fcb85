import type { Codecs } from '../codecs.ts';
import { ContainerIngest } from './container-ingest.ts';
import { isContainer, type KnownFormat } from '../format.ts';
import type { LastPackets } from './joint.ts';
import { OpusIngest } from './opus-ingest.ts';
import { SampleIngest } from './sample-ingest.ts';

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

/**
 * Opens the ingest for a format.
 * @param before what was handed on before this ingest takes over, in the middle of a sound
 * @param onFault takes what `push` cannot throw, because it was found out later
 */
export async function createIngest(
  format: KnownFormat,
  codecs: Codecs,
  sink: OpusSink,
  onFault: (fault: unknown) => void,
  before?: LastPackets,
): Promise<Ingest> {
  if (format.codec !== 'opus' && !isContainer(format)) {
    return SampleIngest.open(format, codecs, sink, before);
  }
  const packets = new OpusIngest(await codecs.opus.createDecoder(), sink);
  return isContainer(format) ? new ContainerIngest(format.codec, packets, onFault) : packets;
}
