import { SAMPLES_PER_MS } from '../../../rtp/clock-rate.ts';
import { opusPacketSamples } from '../../opus-packet.ts';
import { MAX_SNIFFED_BYTES, mayContinueFrames, recognise } from '../../recognise.ts';
import { contentOf } from './content.ts';
import { SURE } from './detector.ts';
import { weigh } from './explanations.ts';
import { isNoSound } from './no-sound.ts';
import type { TimedMessage } from './pace.ts';
import { soundOf } from './sounding-bytes.ts';

/** Pace that hardly contradicts any format of samples, and is not too slow for them. */
const ANY_PACE = { bytesPerMs: 16, elapsedMs: 1, jitterMs: 30 };

/** Length from which frames of AAC and MP3 are not sent in practice, bytes: 750 kbit/s. */
const MOST_FRAME_BYTES = 2048;

/**
 * Returns true if no known format explains messages, at whatever pace they were sent: the pauses between them say nothing about it. Pure.
 * @param startsAtBytes number of bytes of the stream before the messages
 */
export function areUnknownAtAnyPace(messages: readonly Buffer[], startsAtBytes: number): boolean {
  const start = Buffer.concat(messages).subarray(0, MAX_SNIFFED_BYTES);
  if (recognise(start)) return false;
  const isShort = start.length < MAX_SNIFFED_BYTES;
  if (isShort && mayContinueFrames(start, MOST_FRAME_BYTES)) return false;
  const arrivals = atPaceOfOpus(messages);
  const content = contentOf(soundOf(arrivals, startsAtBytes));
  if (!content.isNovel) return false;
  if (isNoSound([...messages], content.sound)) return true;
  const detection = weigh({ arrivals, paced: arrivals, pace: ANY_PACE, content });
  return detection?.format.codec === 'opaque' && detection.confidence >= SURE;
}

/** Returns messages at the times at which packets of Opus of their durations are sent. */
function atPaceOfOpus(messages: readonly Buffer[]): TimedMessage[] {
  let nextMs = 0;
  return messages.map((message) => {
    const atMs = nextMs;
    nextMs += (opusPacketSamples(message) ?? 0) / SAMPLES_PER_MS;
    return { message, atMs };
  });
}
