import type { AacDecoder } from '../aac/decoder.ts';
import { VORBIS_IDENTIFICATION_BYTES } from '../frames/vorbis-header.ts';

/** Codecs whose frames are decoded in the decoder thread. */
export type FrameCodec = 'mp3' | 'flac' | 'aac' | 'vorbis';

/** Decoded sound of some frames. */
export type DecodedSound = {
  /** Mono, -1…1. */
  samples: Float32Array;
  rateHz: number;
  /** Frames that could not be decoded. */
  faults: number;
};

/** A decoder of one stream, inside the thread. */
export type LoadedDecoder = {
  /** Begins the stream again with a head; missing for codecs whose frames need no head. */
  begin?(head: Uint8Array): Promise<void>;
  decode(frames: Uint8Array[]): Promise<DecodedSound>;
  close(): void;
};

/** Opens the decoder of this project (`src/audio/aac`). */
async function openAac(): Promise<LoadedDecoder> {
  const { AacDecoder } = await import('../aac/decoder.ts');
  const decoder = new AacDecoder();
  return {
    decode: async (frames) => decodeEach(decoder, frames),
    close: () => {},
  };
}

/** Decodes frames of one rate; skips unreadable ones. */
function decodeEach(decoder: AacDecoder, frames: Uint8Array[]): DecodedSound {
  const parts: Float32Array[] = [];
  let [rateHz, faults] = [0, 0];
  for (const frame of frames) {
    try {
      const block = decoder.decode(frame);
      ({ rateHz } = block);
      parts.push(block.samples);
    } catch {
      faults += 1;
    }
  }
  return { samples: joined(parts), rateHz, faults };
}

function joined(parts: Float32Array[]): Float32Array {
  const whole = new Float32Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

type Channels = { channelData: Float32Array[]; sampleRate: number; errors: unknown[] };

/** Opens a decoder; its library is loaded when the first is opened. */
export async function openDecoder(codec: FrameCodec): Promise<LoadedDecoder> {
  if (codec === 'aac') return openAac();
  if (codec === 'vorbis') return openVorbis();
  return codec === 'mp3' ? openMp3() : openFlac();
}

/** Opens libmpg123 as WebAssembly. */
async function openMp3(): Promise<LoadedDecoder> {
  const { MPEGDecoder } = await import('mpg123-decoder');
  const decoder = new MPEGDecoder({ enableGapless: false });
  await decoder.ready;
  return {
    decode: async (frames) => heard(decoder.decode(Buffer.concat(frames))),
    close: () => decoder.free(),
  };
}

/** Opens libFLAC as WebAssembly. */
async function openFlac(): Promise<LoadedDecoder> {
  const { FLACDecoder } = await import('@wasm-audio-decoders/flac');
  const decoder = new FLACDecoder();
  await decoder.ready;
  return {
    decode: async (frames) => heard(await decoder.decodeFrames(frames)),
    close: () => decoder.free(),
  };
}

type VorbisLibrary = typeof import('@wasm-audio-decoders/ogg-vorbis');
type VorbisPages = Parameters<InstanceType<VorbisLibrary['OggVorbisDecoder']>['decodeOggPages']>[0];

/**
 * Opens libvorbis as WebAssembly. Each stream has its own memory, at most 16 MiB, which is left to the garbage collector: freeing it would
 * call the library again, with a state that a hostile setup may have corrupted.
 */
async function openVorbis(): Promise<LoadedDecoder> {
  const { OggVorbisDecoder } = await import('@wasm-audio-decoders/ogg-vorbis');
  let decoder: InstanceType<VorbisLibrary['OggVorbisDecoder']> | undefined;
  let newHead: Uint8Array | undefined;
  return {
    begin: async (head) => {
      decoder = new OggVorbisDecoder();
      await decoder.ready;
      newHead = head;
    },
    decode: async (frames) => {
      if (!decoder) throw new Error('Vorbis comes without its head');
      const pages = [pageOf(frames, newHead)];
      newHead = undefined;
      return heard(await decoder.decodeOggPages(pages));
    },
    close: () => {},
  };
}

/** Returns packets in the form of a page that the library accepts: it reads no other fields of a page. */
function pageOf(packets: Uint8Array[], head: Uint8Array | undefined): VorbisPages[number] {
  const data = head?.subarray(0, VORBIS_IDENTIFICATION_BYTES) ?? new Uint8Array(0);
  const header = { vorbisSetup: head?.subarray(VORBIS_IDENTIFICATION_BYTES) };
  const codecFrames = packets.map((packet) => ({ data: packet, header }));
  return { data, codecFrames, isLastPage: false } as unknown as VorbisPages[number];
}

const heard = ({ channelData, sampleRate, errors }: Channels): DecodedSound => ({
  samples: meanOf(channelData),
  rateHz: sampleRate,
  faults: errors.length,
});

/** Returns the mean of separate channels. */
function meanOf(channels: Float32Array[]): Float32Array {
  const [first = new Float32Array(0), ...others] = channels;
  const mean = first.slice();
  for (const channel of others) {
    for (let i = 0; i < mean.length; i += 1) mean[i]! += channel[i]!;
  }
  if (others.length > 0) for (let i = 0; i < mean.length; i += 1) mean[i]! /= channels.length;
  return mean;
}
