import { FRAME_MS, FRAME_SAMPLES } from '../../src/audio/format.ts';
import { audioLevelOf } from '../../src/audio/level.ts';
import { ActiveSpeakers } from '../../src/audio/mixing/active-speakers.ts';
import { hum, noise, spokenTrack, type Track } from './speech.ts';

/** Places in the mix, with the levels of real speech, of steady noises, and of music. */

export const NOISES = 8;
/** Time for which noises last before anybody speaks, ms. */
const NOISES_BEFORE_MS = 2500;
/** Each talker begins later than the one before it by this, ms: their words overlap, each time otherwise. */
const LATER_MS = 700;
const WORDS = 16;
const VOICES = ['en-us', 'en-us+f3', 'en-us+m5'];
const LENGTH_MS = NOISES_BEFORE_MS + 30_000;

const newSpeakers = () =>
  new ActiveSpeakers<string>({ thresholdLevel: 65, holdMs: 500, maxMixed: 8 });

/** Audio level of each 20 ms, as the gateway measures what it takes in. */
export const levelsOf = (sound: Float32Array) =>
  Array.from({ length: Math.floor(sound.length / FRAME_SAMPLES) }, (_, i) =>
    audioLevelOf(sound.subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES)),
  );

type Stream = { name: string; levels: number[]; fromMs: number };

/** Lets streams come, a packet of each every 20 ms. @param onTick called after each 20 ms */
export function playLevels(
  streams: Stream[],
  onTick: (speakers: ActiveSpeakers<string>, ms: number) => void,
): void {
  const speakers = newSpeakers();
  const endMs = Math.max(...streams.map(({ fromMs, levels }) => fromMs + levels.length * FRAME_MS));
  for (let ms = 0; ms < endMs; ms += FRAME_MS) {
    for (const { name, levels, fromMs } of streams) {
      const level = levels[Math.floor((ms - fromMs) / FRAME_MS)];
      if (level !== undefined) speakers.heard(name, level, FRAME_SAMPLES, ms);
    }
    speakers.expire(ms);
    onTick(speakers, ms);
  }
}

/** The words of three talkers. */
export const sayTalkers = (): Promise<Track[]> =>
  Promise.all(
    VOICES.map((voice, i) => spokenTrack({ voice, words: WORDS, pauseMs: 900, seed: i + 1 })),
  );

const fanAt = (db: number, i: number) => levelsOf(noise(db, LENGTH_MS, i + 20));

/** Levels of eight noises, by what they are. */
export const NOISES_OF: Record<string, (db: number) => number[][]> = {
  'of fans': (db) => Array.from({ length: NOISES }, (_, i) => fanAt(db, i)),
  'of hum': (db) => Array.from({ length: NOISES }).fill(levelsOf(hum(db, LENGTH_MS))) as number[][],
  'of fans and of hum': (db) => {
    const ofHum = levelsOf(hum(db, LENGTH_MS));
    return Array.from({ length: NOISES }, (_, i) => (i % 2 === 0 ? fanAt(db, i) : ofHum));
  },
};

/** Lets talkers speak beside noises: when each word begins and is mixed, how often it is cut, and how often places change. */
export function hearBesideNoises(noiseLevels: number[][], talkers: Track[]) {
  const noises = noiseLevels.map((levels, i) => ({ name: `noise ${i}`, levels, fromMs: 0 }));
  const speech = talkers.map(({ sound }, i) => ({
    name: `talker ${i}`,
    levels: levelsOf(sound),
    fromMs: NOISES_BEFORE_MS + Math.ceil((i * LATER_MS) / FRAME_MS) * FRAME_MS,
  }));
  const words = talkers.flatMap((track, i) =>
    track.words.map(({ fromSample, samples }) => {
      const { name, fromMs } = speech[i]!;
      const beginsMs = fromMs + fromSample / 48;
      return { name, beginsMs, endsMs: beginsMs + samples / 48, mixedAtMs: Infinity, cuts: 0 };
    }),
  );
  let [changes, version, lastMs] = [0, 0, 0];
  playLevels([...noises, ...speech], (speakers, ms) => {
    if (speakers.mixedVersion !== version) changes += 1;
    version = speakers.mixedVersion;
    lastMs = ms;
    for (const word of words) {
      if (ms < word.beginsMs || ms >= word.endsMs) continue;
      const isMixed = speakers.mixed.has(word.name);
      if (isMixed) word.mixedAtMs = Math.min(word.mixedAtMs, ms);
      else if (word.mixedAtMs < Infinity) word.cuts += 1;
    }
  });
  return { words, changes, minutes: lastMs / 60_000 };
}
