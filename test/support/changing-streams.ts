import type { Codecs } from '../../src/audio/codecs.ts';
import { type AudioFormat, formatAudioFormat, parseAudioFormat } from '../../src/audio/format.ts';
import { FormatDetector } from '../../src/audio/ingest/detection/detector.ts';
import { guardOf } from '../../src/audio/ingest/detection/guard-of.ts';
import { PaceHistory } from '../../src/audio/ingest/detection/pace-history.ts';
import type { TimedMessage } from '../../src/audio/ingest/detection/pace.ts';
import { AudioInput } from '../../src/audio/ingest/input.ts';
import { SoundBudget } from '../../src/audio/ingest/sound-budget.ts';
import { arrivalsOf, CONTENTS, streamOf } from './corpus.ts';
import { audibleMs } from './first-sound.ts';
import { seededRandom } from './random.ts';
import { decodeOpus } from './sound.ts';

/** Undeclared streams whose format changes in the middle, or never. */

const MESSAGE_LENGTHS_MS = [20, 100];

/** Format that is told for random bytes. */
export const RANDOM_BYTES = 'opaque';

const KNOWN = [
  'opus',
  'pcmu',
  'pcma',
  'pcm_s16le;rate=8000;channels=1',
  'pcm_s16le;rate=16000;channels=1',
  'pcm_s16le;rate=16000;channels=2',
  'pcm_s16le;rate=24000;channels=1',
  'pcm_s16le;rate=44100;channels=1',
  'pcm_s16le;rate=48000;channels=1',
  'pcm_s16le;rate=48000;channels=2',
  'pcm_f32le;rate=16000;channels=1',
  'pcm_f32le;rate=44100;channels=1',
  'pcm_f32le;rate=48000;channels=1',
  'pcm_f32le;rate=48000;channels=2',
];
const CHANGING = [...KNOWN, RANDOM_BYTES];
/** Durations before and after a change. */
const BEFORE_MS = 1500;
const AFTER_MS = 3000;
const RANDOM_BYTES_PER_MS = 32;

export type FormatChange = { from: string; to: string; messageMs: number; seed: number };

/** Every format after each other one. */
export function* formatChanges(seeds: number): Generator<FormatChange> {
  for (const messageMs of MESSAGE_LENGTHS_MS) {
    for (const from of CHANGING) {
      for (const to of CHANGING.filter((other) => other !== from)) {
        for (let seed = 1; seed <= seeds; seed += 1) yield { from, to, messageMs, seed };
      }
    }
  }
}

/** Speech in a format, or random bytes. */
async function speechIn(name: string, messageMs: number, durationMs: number, seed: number) {
  if (name !== RANDOM_BYTES) {
    const format = parseAudioFormat(name);
    return arrivalsOf({ content: 'speech', format, messageMs, seed }, durationMs);
  }
  const random = seededRandom(seed);
  const length = messageMs * RANDOM_BYTES_PER_MS;
  return Array.from({ length: durationMs / messageMs }, (_, i) => ({
    message: Buffer.from(Uint8Array.from({ length }, () => random() * 256)),
    atMs: 1000 + i * messageMs,
  }));
}

/**
 * A change of format as it was heard. `told`: the format told last; `foundMs`: the time from the change until it was told; `wrongMs`: duration
 * of audible sound after the change that was read as another format.
 */
export type HeardChange = { told: string | undefined; foundMs: number; wrongMs: number };

/** Plays a stream whose format changes to an input that knows nothing of it. */
export async function hearFormatChange(
  { from, to, messageMs, seed }: FormatChange,
  codecs: Codecs,
): Promise<HeardChange> {
  let told: string | undefined;
  let hasChanged = false;
  let [nowMs, toldAtMs] = [0, 0];
  const wrong: Buffer[] = [];
  const input = new AudioInput(
    'auto',
    codecs,
    { sink: (packet) => hasChanged && told !== to && wrong.push(packet), sound: new SoundBudget() },
    {
      onDetected: (format) => {
        told = formatAudioFormat(format);
        toldAtMs = nowMs;
      },
      onOpaque: () => {},
      onMismatch: () => {},
      onFault: (fault) => {
        throw fault;
      },
    },
  );
  const play = async (messages: readonly TimedMessage[], fromMs: number) => {
    for (const { message, atMs } of messages) {
      nowMs = fromMs + atMs;
      input.push(message, nowMs);
      await new Promise(setImmediate);
    }
  };
  await play(await speechIn(from, messageMs, BEFORE_MS, seed), 0);
  hasChanged = true;
  const changedAtMs = nowMs;
  // Another voice.
  await play(await speechIn(to, messageMs, AFTER_MS, seed + 1000), BEFORE_MS);
  input.close();
  const wrongMs = wrong.length > 0 ? audibleMs(await decodeOpus(wrong), 5) : 0;
  return { told, foundMs: toldAtMs - changedAtMs, wrongMs };
}

const STEADY = [
  ...KNOWN,
  'g722',
  'pcm_s16be;rate=16000;channels=1',
  'pcm_u8;rate=8000;channels=1',
  'pcm_s24le;rate=48000;channels=2',
  'pcm_s32le;rate=48000;channels=2',
];
/** Durations of a part of a stream, and of the digital silence after it. */
const LEAST_PART_MS = 3000;
const MOST_PART_MS = 6000;
const MOST_PAUSE_MS = 800;
/** Number of messages from which the format was detected. */
const LEARNED_MESSAGES = 4;

export type SteadyStream = { format: AudioFormat; messageMs: number; seed: number };

/** Streams of one format with every content. */
export function* steadyStreams(seeds: number): Generator<SteadyStream> {
  for (const format of STEADY.map(parseAudioFormat)) {
    for (const messageMs of MESSAGE_LENGTHS_MS) {
      for (let seed = 1; seed <= seeds; seed += 1) yield { format, messageMs, seed };
    }
  }
}

/**
 * Counts the messages of a stream that never changes: all; the alarms, messages that hardly seem to be of the format; those that are held, from
 * an alarm until the format is clear again; and those from which another format is detected.
 */
export async function alarmsIn({ format, messageMs, seed }: SteadyStream) {
  const random = seededRandom(seed * 7919 + messageMs);
  const parts = CONTENTS.flatMap((content) => [
    { content, durationMs: LEAST_PART_MS + random() * (MOST_PART_MS - LEAST_PART_MS) },
    { content: 'zeros' as const, durationMs: random() * MOST_PAUSE_MS },
  ]);
  const arrivals = await streamOf(parts, { format, messageMs, random });
  const guard = guardOf(format, new PaceHistory())!;
  const counts = { messages: arrivals.length, alarms: 0, held: 0, mistaken: 0 };
  let doubt: FormatDetector | undefined;
  let atBytes = 0;
  for (const [i, { message, atMs }] of arrivals.entries()) {
    const look = doubt || i < LEARNED_MESSAGES ? undefined : guard.look(message, atBytes, atMs);
    if (i < LEARNED_MESSAGES) guard.learn(message, atMs);
    atBytes += message.length;
    if (typeof look === 'object') counts.mistaken += 1;
    if (look === 'wrong') {
      counts.alarms += 1;
      doubt = new FormatDetector();
    }
    const detection = doubt?.push(message, atMs);
    if (doubt && !detection) counts.held += 1;
    if (!doubt || !detection) continue;
    if (!doubt.isSilentSoFar && detection.format.codec !== format.codec) counts.mistaken += 1;
    else if (!doubt.isSilentSoFar) guard.reassure();
    doubt = undefined;
  }
  return counts;
}
