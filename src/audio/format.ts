import { PartylineError } from '../protocol/errors.ts';

/** What one binary message of a peer means (docs/protocol.md, "Audio formats"). */
export type AudioFormat =
  { codec: 'opus' } | { codec: 'pcm_s16le'; rateHz: number; channels: number };

const KNOWN = 'opus, pcm_s16le;rate=48000;channels=1';

/**
 * Reads the `audio` query parameter.
 * @throws {PartylineError} `unsupported_audio`
 */
export function parseAudioFormat(value: string): AudioFormat {
  if (value === 'opus') return { codec: 'opus' };
  if (value === 'pcm_s16le;rate=48000;channels=1') {
    return { codec: 'pcm_s16le', rateHz: 48000, channels: 1 };
  }
  throw new PartylineError('unsupported_audio', `Unknown audio format; known are ${KNOWN}.`);
}

/** The inverse of {@link parseAudioFormat}. */
export function formatAudioFormat(format: AudioFormat): string {
  return format.codec === 'opus'
    ? 'opus'
    : `${format.codec};rate=${format.rateHz};channels=${format.channels}`;
}

/** How a peer hears the room: one stream with everybody else in it, or each speaker's own packets. */
export type Delivery = 'mix' | 'forward';

/** The gateway mixes, meters and encodes in frames of 20 ms at Opus's own rate. */
export const SAMPLE_RATE_HZ = 48000;
export const FRAME_MS = 20;
export const FRAME_SAMPLES = 960;
