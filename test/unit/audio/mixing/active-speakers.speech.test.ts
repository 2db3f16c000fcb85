import { beforeAll, describe, expect, test } from 'vitest';
import { FRAME_MS, FRAME_SAMPLES } from '../../../../src/audio/format.ts';
import { audioLevelOf } from '../../../../src/audio/level.ts';
import { ActiveSpeakers } from '../../../../src/audio/mixing/active-speakers.ts';
import { hum, musicTrack, noise, spokenTrack, type Track } from '../../../support/speech.ts';

/** Places in the mix, with the levels of real speech, of steady noises, and of music. */

const NOISES = 8;
/** Time for which noises last before anybody speaks, ms. */
const NOISES_BEFORE_MS = 2500;
/** Each talker begins later than the one before it by this, ms: their words overlap, each time otherwise. */
const LATER_MS = 700;
const WORDS = 16;
const VOICES = ['en-us', 'en-us+f3', 'en-us+m5'];

const newSpeakers = () =>
  new ActiveSpeakers<string>({ thresholdLevel: 65, holdMs: 500, maxMixed: 8 });

/** Audio level of each 20 ms, as the gateway measures what it takes in. */
const levelsOf = (sound: Float32Array) =>
  Array.from({ length: Math.floor(sound.length / FRAME_SAMPLES) }, (_, i) =>
    audioLevelOf(sound.subarray(i * FRAME_SAMPLES, (i + 1) * FRAME_SAMPLES)),
  );

type Stream = { name: string; levels: number[]; fromMs: number };

/** Lets streams come, a packet of each every 20 ms. @param onTick called after each 20 ms */
function play(streams: Stream[], onTick: (speakers: ActiveSpeakers<string>, ms: number) => void) {
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

let talkers: Track[];
beforeAll(async () => {
  talkers = await Promise.all(
    VOICES.map((voice, i) => spokenTrack({ voice, words: WORDS, pauseMs: 900, seed: i + 1 })),
  );
});

const LENGTH_MS = NOISES_BEFORE_MS + 30_000;
const fanAt = (db: number, i: number) => levelsOf(noise(db, LENGTH_MS, i + 20));

/** Levels of eight noises, by what they are. */
const noisesOf: Record<string, (db: number) => number[][]> = {
  'of fans': (db) => Array.from({ length: NOISES }, (_, i) => fanAt(db, i)),
  'of hum': (db) => Array.from({ length: NOISES }).fill(levelsOf(hum(db, LENGTH_MS))) as number[][],
  'of fans and of hum': (db) => {
    const ofHum = levelsOf(hum(db, LENGTH_MS));
    return Array.from({ length: NOISES }, (_, i) => (i % 2 === 0 ? fanAt(db, i) : ofHum));
  },
};

const cases = Object.entries(noisesOf).flatMap(([name, levelsAt]) =>
  [-50, -45, -40, -35].map((db) => ({ name, db, levelsAt })),
);

describe.each(cases)('eight noises $name at $db dBov, and three that speak', ({ db, levelsAt }) => {
  /** Words of all talkers: when each begins and ends, and how it was mixed. */
  function hear() {
    const noises = levelsAt(db).map((levels, i) => ({ name: `noise ${i}`, levels, fromMs: 0 }));
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
    play([...noises, ...speech], (speakers, ms) => {
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
    return { words, changesAMinute: (changes * 60_000) / lastMs };
  }

  test('each word is mixed within 200 ms, and to its end; places change as often as words begin and end', () => {
    const { words, changesAMinute } = hear();
    expect(words).toHaveLength(VOICES.length * WORDS);
    const lateMs = words.map(({ mixedAtMs, beginsMs }) => mixedAtMs - beginsMs);
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(200);
    expect(words.map(({ cuts }) => cuts)).toEqual(words.map(() => 0));
    // The noises come once, and go once.
    const minutes = LENGTH_MS / 60_000;
    expect(changesAMinute).toBeLessThanOrEqual((2 * words.length + 2 * NOISES) / minutes);
  });
});

describe('talk that does not end', () => {
  const isTalkAfter = (sound: Float32Array, afterMs: number) => {
    const isTalk: boolean[] = [];
    play([{ name: 'a', levels: levelsOf(sound), fromMs: 0 }], (speakers, ms) => {
      if (ms >= afterMs) isTalk.push(speakers.isTalking('a'));
    });
    return new Set(isTalk);
  };

  test.each([-50, -45, -40, -36])(
    'hum, and hiss, at %i dBov count as talk for no longer than a note that is held',
    (db) => {
      expect(isTalkAfter(hum(db, 15_000), 11_000)).toEqual(new Set([false]));
      expect(isTalkAfter(noise(db, 15_000, 3), 11_000)).toEqual(new Set([false]));
    },
  );

  test.each([-26, -34])('music at %i dBov stays talk', async (levelDb) => {
    const { sound } = await musicTrack({ chords: 24, levelDb });
    expect(isTalkAfter(sound, 200)).toEqual(new Set([true]));
  });

  test.each([-40, -48])('music at %i dBov that is not all as loud stays talk', async (levelDb) => {
    const { sound, words } = await musicTrack({ chords: 24, levelDb });
    for (const { fromSample, samples } of words.filter((_, i) => i % 4 === 3)) {
      for (let at = fromSample; at < fromSample + samples; at += 1) sound[at]! /= 2;
    }
    expect(isTalkAfter(sound, 200)).toEqual(new Set([true]));
  });
});
