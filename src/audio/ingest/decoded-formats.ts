import { parseFlacHeader } from '../frames/flac-frame.ts';
import { ADTS_FRAMES } from '../frames/adts-frame.ts';
import { MPEG_FRAMES } from '../frames/mpeg-frame.ts';
import type { CompressedFormat } from '../format.ts';
import { ChainedFrames } from './chained-frames.ts';
import type { DecodedFormat } from './decoded-ingest.ts';
import { FlacReader, flacTimingOf } from './flac-reader.ts';
import { Mp4Reader } from './mp4-reader.ts';
import { isFirstOggPage, OGG_FLAC, OggReader } from './ogg-reader.ts';
import { VorbisReader } from './vorbis-reader.ts';

const beginsWith = (magic: string) => (bytes: Buffer) =>
  bytes.toString('latin1', 0, magic.length) === magic;

/** Frame reader and codec of each compressed format. */
export const DECODED_FORMATS: Record<CompressedFormat['codec'], Omit<DecodedFormat, 'name'>> = {
  mp3: {
    codec: 'mp3',
    openReader: (onFrame) => new ChainedFrames(MPEG_FRAMES, onFrame),
    isStart: () => false,
  },
  flac: {
    codec: 'flac',
    openReader: (onFrame) => new FlacReader(onFrame),
    isStart: beginsWith('fLaC'),
  },
  ogg_flac: {
    codec: 'flac',
    openReader: (onFrame) =>
      new OggReader((packet) => {
        const header = parseFlacHeader(packet, 0);
        if (!header) return;
        const { durationMs, rateHz } = flacTimingOf(header);
        onFrame(packet, durationMs, rateHz);
      }, OGG_FLAC),
    isStart: isFirstOggPage,
  },
  ogg_vorbis: {
    codec: 'vorbis',
    openReader: (onFrame) => new VorbisReader(onFrame),
    isStart: isFirstOggPage,
  },
  aac_adts: {
    codec: 'aac',
    openReader: (onFrame) => new ChainedFrames(ADTS_FRAMES, onFrame),
    isStart: () => false,
  },
  mp4_aac: {
    codec: 'aac',
    openReader: (onFrame) => new Mp4Reader(onFrame),
    isStart: (bytes) => bytes.toString('latin1', 4, 8) === 'ftyp',
  },
};
