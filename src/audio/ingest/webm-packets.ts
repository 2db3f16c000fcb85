import {
  Block,
  BlockLacing,
  EbmlDataTag,
  EbmlMasterTag,
  EbmlStreamDecoder,
  type EbmlTag,
  EbmlTagId,
  SimpleBlock,
} from 'ebml-stream';

const EBML: number = EbmlTagId.EBML;
const TRACKS: number = EbmlTagId.Tracks;
const TRACK_NUMBER: number = EbmlTagId.TrackNumber;
const CODEC_ID: number = EbmlTagId.CodecID;
const CODEC_PRIVATE: number = EbmlTagId.CodecPrivate;

/** Where an `OpusHead` (RFC 7845 §5.1), which is the codec's private data here, says how many channels there are. */
const OPUS_HEAD_CHANNELS_AT = 9;

/**
 * The Opus packets of a WebM or other Matroska stream (RFC 9559), each as soon as its block is whole: clusters may be of
 * unknown size, or last for seconds.
 * @throws {Error} when it cannot be read, or holds no Opus of one or two channels in unlaced blocks
 */
export async function* webmPackets(chunks: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  const decoder = new EbmlStreamDecoder({ bufferTagIds: [EbmlTagId.Tracks] });
  let trackNumber: number | undefined;
  let isEbml = false;
  for await (const chunk of chunks) {
    // Decodes at once; what is wrong is thrown.
    decoder.write(chunk);
    for (let tag = nextTag(decoder); tag; tag = nextTag(decoder)) {
      isEbml ||= tag.id === EBML;
      if (!isEbml) throw new Error('It does not begin as EBML.');
      if (tag instanceof EbmlMasterTag && tag.id === TRACKS) {
        trackNumber ??= findOpusTrack(tag);
      } else if (tag instanceof SimpleBlock || tag instanceof Block) {
        if (tag.track !== trackNumber) continue;
        if (tag.lacing !== BlockLacing.None) throw new Error('Its blocks are laced.');
        yield tag.payload;
      }
    }
  }
}

const nextTag = (decoder: EbmlStreamDecoder) => decoder.read() as EbmlTag | null;

/** The number of the first track of Opus. */
function findOpusTrack({ Children: entries }: EbmlMasterTag): number {
  for (const entry of entries) {
    if (!(entry instanceof EbmlMasterTag)) continue;
    const valueOf = (id: number): unknown =>
      entry.Children.find((tag): tag is EbmlDataTag => tag instanceof EbmlDataTag && tag.id === id)
        ?.data;
    const number = valueOf(TRACK_NUMBER);
    if (valueOf(CODEC_ID) !== 'A_OPUS' || typeof number !== 'number') continue;
    const head = valueOf(CODEC_PRIVATE);
    if (head instanceof Uint8Array && (head[OPUS_HEAD_CHANNELS_AT] ?? 1) > 2) {
      throw new Error('It has more than two channels.');
    }
    return number;
  }
  throw new Error('It holds no Opus.');
}
