import type { Codecs } from '../codecs.ts';
import { isCompressed, isContainer, isSamples, type KnownFormat } from '../format.ts';
import { ContainerIngest } from './container-ingest.ts';
import { DECODED_FORMATS } from './decoded-formats.ts';
import { DecodedIngest } from './decoded-ingest.ts';
import type { Ingest, IngestEvents, OpusTarget } from './ingest.ts';
import type { LastPackets } from './splice.ts';
import { OpusIngest } from './opus-ingest.ts';
import { SampleIngest } from './sample-ingest.ts';
import { WavIngest } from './wav-ingest.ts';

/**
 * Opens the ingest for a format.
 * @param before last packets that were handed on before this ingest takes over, in the middle of a sound
 */
export async function createIngest(
  format: KnownFormat,
  codecs: Codecs,
  target: OpusTarget,
  events: IngestEvents,
  before?: LastPackets,
): Promise<Ingest> {
  if (isSamples(format)) return SampleIngest.open(format, codecs, target, before);
  if (format.codec === 'wav') return new WavIngest(codecs, target, events, before);
  if (isCompressed(format)) {
    const decoded = { ...DECODED_FORMATS[format.codec], name: format.codec };
    return new DecodedIngest(decoded, codecs, target, events, before);
  }
  const packets = new OpusIngest(await codecs.opus.createDecoder(), target);
  if (!isContainer(format)) return packets;
  return new ContainerIngest(format.codec, packets, events.onFault, target.sound.onOver);
}
