import type { Codecs } from '../../src/audio/codecs.ts';
import { type AudioFormat, formatAudioFormat } from '../../src/audio/format.ts';
import type { TimedMessage } from '../../src/audio/ingest/detection/pace.ts';
import { AudioInput } from '../../src/audio/ingest/input.ts';
import { SoundBudget } from '../../src/audio/ingest/sound-budget.ts';
import { FORMATS, streamOf } from './corpus.ts';
import { seededRandom } from './random.ts';
import { decodeOpus } from './sound.ts';

/** Undeclared streams that begin with silence, and what is heard of them. */

/** Digital zeros; the noise of a quiet room; or no message at all but one in 400 ms, as senders with DTX do. */
const SILENCES = ['zeros', 'comfort noise', 'DTX'] as const;
const SOUNDS = ['speech', 'music'] as const;
const MESSAGE_LENGTHS_MS = [10, 20, 40, 60, 100, 200];
const SOUND_MS = 1500;
const LEAST_SILENCE_MS = 200;
const MOST_SILENCE_MS = 3000;
const DTX_EVERY_MS = 400;

export type FirstSoundCase = {
  silence: (typeof SILENCES)[number];
  content: (typeof SOUNDS)[number];
  format: AudioFormat;
  messageMs: number;
  seed: number;
};

export const nameOfFirstSound = ({ silence, content, format, messageMs, seed }: FirstSoundCase) =>
  `${silence}, then ${content} as ${formatAudioFormat(format)}, ${messageMs} ms, seed ${seed}`;

/** Every format, silence and sound for each seed, which also chooses the length of messages. */
export function* firstSoundCases(seeds: number): Generator<FirstSoundCase> {
  for (const silence of SILENCES) {
    for (const content of SOUNDS) {
      for (const [i, format] of FORMATS.entries()) {
        for (let seed = 1; seed <= seeds; seed += 1) {
          const messageMs = MESSAGE_LENGTHS_MS[(seed + i) % MESSAGE_LENGTHS_MS.length]!;
          yield { silence, content, format, messageMs, seed };
        }
      }
    }
  }
}

async function arrivalsOfFirstSound(firstSound: FirstSoundCase): Promise<TimedMessage[]> {
  const { silence, content, format, messageMs, seed } = firstSound;
  const random = seededRandom(seed * 7919 + messageMs * 31 + SILENCES.indexOf(silence));
  const silenceMs = LEAST_SILENCE_MS + random() * (MOST_SILENCE_MS - LEAST_SILENCE_MS);
  const quiet = silence === 'comfort noise' ? 'silence' : 'zeros';
  const parts = [
    { content: quiet, durationMs: silenceMs },
    { content, durationMs: SOUND_MS },
  ] as const;
  const arrivals = await streamOf(parts, { format, messageMs, random });
  if (silence !== 'DTX') return arrivals;
  const endsAtMs = arrivals[0]!.atMs + silenceMs - messageMs;
  let sentMs = -Infinity;
  return arrivals.filter(({ atMs }) => {
    if (atMs < endsAtMs && atMs - sentMs < DTX_EVERY_MS) return false;
    sentMs = atMs;
    return true;
  });
}

/** Softer than this, root mean square, nothing is heard: −50 dBov. */
const AUDIBLE = 10 ** (-50 / 20);
const FRAME_MS = 20;

/** `told`: formats in the order in which they were found out; `wrongMs`: duration of audible sound that was read as another format than that of the stream. */
export type FirstSound = { told: string[]; wrongMs: number };

/** Plays a stream to an input that knows nothing of it. */
export async function hearFirstSound(
  firstSound: FirstSoundCase,
  codecs: Codecs,
): Promise<FirstSound> {
  const arrivals = await arrivalsOfFirstSound(firstSound);
  return hearWrongly(arrivals, formatAudioFormat(firstSound.format), codecs);
}

/** Plays a stream to an input that knows nothing of it. @param right name of its format */
export async function hearWrongly(
  arrivals: readonly TimedMessage[],
  right: string,
  codecs: Codecs,
): Promise<FirstSound> {
  const told: string[] = [];
  const wrong: Buffer[] = [];
  const input: AudioInput = new AudioInput(
    'auto',
    codecs,
    {
      sound: new SoundBudget(),
      sink: (packet) => {
        if (input.format && formatAudioFormat(input.format) !== right) wrong.push(packet);
      },
    },
    {
      onDetected: (format) => told.push(formatAudioFormat(format)),
      onOpaque: () => {},
      onMismatch: () => {},
      onFault: (fault) => {
        throw fault;
      },
    },
  );
  for (const { message, atMs } of arrivals) {
    input.push(message, atMs);
    await new Promise(setImmediate);
  }
  input.close();
  return { told, wrongMs: wrong.length > 0 ? audibleMs(await decodeOpus(wrong)) : 0 };
}

/** Duration of the windows of a sound of 48 kHz that are louder than −50 dBov. */
export function audibleMs(sound: Float32Array, windowMs = FRAME_MS): number {
  const samples = 48 * windowMs;
  let ms = 0;
  for (let at = 0; at + samples <= sound.length; at += samples) {
    const window = sound.subarray(at, at + samples);
    const power = window.reduce((sum, sample) => sum + sample * sample, 0) / samples;
    if (Math.sqrt(power) > AUDIBLE) ms += windowMs;
  }
  return ms;
}
