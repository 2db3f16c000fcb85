import type { AacDecoder } from '../aac/decoder.ts';

/** Codecs whose frames are decoded in the decoder thread. */
export type FrameCodec = 'mp3' | 'flac' | 'aac';

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
  decode(frames: Uint8Array[]): Promise<DecodedSound>;
  close(): void;
};

/** A decoder of this project (`src/audio/aac`). */
async function openAac(): Promise<LoadedDecoder> {
  const { AacDecoder } = await import('../aac/decoder.ts');
  const decoder = new AacDecoder();
  return {
    decode: async (frames) => decodeEach(decoder, frames),
    close: () => {},
  };
}

/** Skips unreadable frames; if frames differ in rate, keeps the last ones with equal rate. */
function decodeEach(decoder: AacDecoder, frames: Uint8Array[]): DecodedSound {
  let [parts, rateHz, faults]: [Float32Array[], number, number] = [[], 0, 0];
  for (const frame of frames) {
    try {
      const block = decoder.decode(frame);
      if (block.rateHz !== rateHz) parts = [];
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
  return codec === 'mp3' ? openMp3() : openFlac();
}

/** libmpg123 as WebAssembly. */
async function openMp3(): Promise<LoadedDecoder> {
  const { MPEGDecoder } = await import('mpg123-decoder');
  const decoder = new MPEGDecoder({ enableGapless: false });
  await decoder.ready;
  return {
    decode: async (frames) => heard(decoder.decode(Buffer.concat(frames))),
    close: () => decoder.free(),
  };
}

/** libFLAC as WebAssembly. */
async function openFlac(): Promise<LoadedDecoder> {
  const { FLACDecoder } = await import('@wasm-audio-decoders/flac');
  const decoder = new FLACDecoder();
  await decoder.ready;
  return {
    decode: async (frames) => heard(await decoder.decodeFrames(frames)),
    close: () => decoder.free(),
  };
}

const heard = ({ channelData, sampleRate, errors }: Channels): DecodedSound => ({
  samples: meanOf(channelData),
  rateHz: sampleRate,
  faults: errors.length,
});

/** The mean of separate channels. */
function meanOf(channels: Float32Array[]): Float32Array {
  const [first = new Float32Array(0), ...others] = channels;
  const mean = first.slice();
  for (const channel of others) {
    for (let i = 0; i < mean.length; i += 1) mean[i]! += channel[i]!;
  }
  if (others.length > 0) for (let i = 0; i < mean.length; i += 1) mean[i]! /= channels.length;
  return mean;
}
