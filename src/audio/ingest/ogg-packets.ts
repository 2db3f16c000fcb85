import { EncodedPacketSink, Input, OGG, ReadableStreamSource } from 'mediabunny';

/** The reader keeps so much of what it has read. */
const CACHE_BYTES = 1 << 18;

/**
 * The Opus packets of an Ogg stream (RFC 3533, RFC 7845), each as soon as the head of the page after it may have come.
 * @throws {Error} when it cannot be read, or holds no Opus of one or two channels
 */
export async function* oggPackets(chunks: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  const source = new ReadableStreamSource(chunks, { maxCacheSize: CACHE_BYTES });
  using input = new Input({ source, formats: [OGG] });
  const track = await input.getPrimaryAudioTrack();
  if (!track || (await track.getCodec()) !== 'opus') throw new Error('It holds no Opus.');
  if ((await track.getNumberOfChannels()) > 2) throw new Error('It has more than two channels.');
  for await (const { data } of new EncodedPacketSink(track).packets()) {
    yield Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  }
}
