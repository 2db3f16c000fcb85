import { spawn } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import type { Codecs } from '../../src/audio/codecs.ts';
import { openDecoder } from '../../src/audio/decoding/frame-codecs.ts';
import type { CompressedFormat } from '../../src/audio/format.ts';
import { DECODED_FORMATS } from '../../src/audio/ingest/decoded-formats.ts';

/** Files of compressed audio that ffmpeg makes of a sound, as a client sends them while they grow. */

/** Format of a file, and the arguments with which ffmpeg makes it. */
export type CompressedFile = { codec: CompressedFormat['codec']; encode: string[] };

/** Bytes of a message, and the time at which it is sent, ms after the first. */
export type TimedMessage = { message: Buffer; atMs: number };

/** Bytes of a container that are given to its reader at a time: the end of a frame is found to within these. */
const PIECE_BYTES = 16;

/** Duration of a page of Ogg, as of a client that sends ten messages a second. */
const PAGES = ['-page_duration', '100000', '-f', 'ogg'];
const FRAGMENTS = ['-movflags', 'empty_moov+default_base_moof', '-frag_duration', '20000'];

export const COMPRESSED_FILES = {
  mp3: { codec: 'mp3', encode: ['-b:a', '96k', '-f', 'mp3'] },
  aac: { codec: 'aac_adts', encode: ['-c:a', 'aac', '-b:a', '96k', '-f', 'adts'] },
  mp4: { codec: 'mp4_aac', encode: ['-c:a', 'aac', '-b:a', '96k', ...FRAGMENTS, '-f', 'mp4'] },
  flac: { codec: 'flac', encode: ['-f', 'flac'] },
  oggFlac: { codec: 'ogg_flac', encode: ['-c:a', 'flac', ...PAGES] },
  vorbis: { codec: 'ogg_vorbis', encode: ['-c:a', 'libvorbis', '-q:a', '5', ...PAGES] },
} as const satisfies Record<string, CompressedFile>;

/** Returns the messages of a file, each of which ends with a frame, and is sent when that has been said. */
export async function compress(
  { codec, encode }: CompressedFile,
  sound: Float32Array,
): Promise<TimedMessage[]> {
  const bytes = await runFfmpeg(encode, sound);
  const frames: { frame: Buffer; durationMs: number }[] = [];
  const whole = DECODED_FORMATS[codec].openReader((frame, durationMs) =>
    frames.push({ frame, durationMs }),
  );
  whole.push(bytes);
  const headBytes = bytes.length - frames.reduce((sum, { frame }) => sum + frame.length, 0);
  const isBare = bytes.subarray(headBytes).equals(Buffer.concat(frames.map(({ frame }) => frame)));
  if (!isBare) return cutContainer(codec, bytes);
  let [saidMs, from, end] = [0, 0, headBytes];
  return frames.map(({ frame, durationMs }) => {
    saidMs += durationMs;
    end += frame.length;
    const message = bytes.subarray(from, end);
    from = end;
    return { message, atMs: saidMs };
  });
}

/** Cuts a container behind the piece with which each frame is complete. */
function cutContainer(codec: CompressedFormat['codec'], bytes: Buffer): TimedMessage[] {
  let [saidMs, frames] = [0, 0];
  const reader = DECODED_FORMATS[codec].openReader((_, durationMs) => {
    saidMs += durationMs;
    frames += 1;
  });
  const messages: TimedMessage[] = [];
  let from = 0;
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    const before = frames;
    const end = Math.min(at + PIECE_BYTES, bytes.length);
    reader.push(bytes.subarray(at, end));
    if (frames === before && end < bytes.length) continue;
    messages.push({ message: bytes.subarray(from, end), atMs: saidMs });
    from = end;
  }
  return messages;
}

async function runFfmpeg(encode: string[], sound: Float32Array): Promise<Buffer> {
  const input = ['-f', 'f32le', '-ar', '48000', '-ac', '1', '-i', '-'];
  const ffmpeg = spawn('ffmpeg', ['-v', 'error', ...input, ...encode, '-'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  ffmpeg.stdin.end(Buffer.from(sound.buffer, sound.byteOffset, sound.byteLength));
  return buffer(ffmpeg.stdout);
}

/** Returns codecs whose decoders of files work in this thread, and a function that waits until they have nothing to do. */
export function decodeHere(codecs: Codecs) {
  const work = { open: 0 };
  const open: Codecs['frames']['open'] = (codec) => {
    const opened = openDecoder(codec);
    let begun = Promise.resolve();
    return {
      begin: (head) => {
        begun = begun.then(async () => (await opened).begin?.(head));
      },
      decode: async (frames) => {
        work.open += 1;
        try {
          await begun;
          return await (await opened).decode(frames);
        } finally {
          work.open -= 1;
        }
      },
      close: () => void opened.then((decoder) => decoder.close()),
    };
  };
  const settle = async () => {
    // Encoders of what is decoded open asynchronously.
    do await new Promise(setImmediate);
    while (work.open > 0);
    await new Promise(setImmediate);
  };
  return { codecs: { ...codecs, frames: { open } }, settle };
}
