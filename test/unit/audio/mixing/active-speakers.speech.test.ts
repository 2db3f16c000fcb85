import { beforeAll, describe, expect, test } from 'vitest';
import {
  hearBesideNoises,
  levelsOf,
  NOISES,
  NOISES_OF,
  playLevels,
  sayTalkers,
} from '../../../support/places.ts';
import { hum, musicTrack, noise, type Track } from '../../../support/speech.ts';

let talkers: Track[];
beforeAll(async () => {
  talkers = await sayTalkers();
});

const cases = Object.entries(NOISES_OF).flatMap(([name, levelsAt]) =>
  [-50, -45, -40, -35].map((db) => ({ name, db, levelsAt })),
);

describe.each(cases)('eight noises $name at $db dBov, and three that speak', ({ db, levelsAt }) => {
  test('each word is mixed within 200 ms, and to its end; places change as often as words begin and end', () => {
    const { words, changes } = hearBesideNoises(levelsAt(db), talkers);
    expect(words).toHaveLength(48);
    const lateMs = words.map(({ mixedAtMs, beginsMs }) => mixedAtMs - beginsMs);
    expect(Math.max(...lateMs)).toBeLessThanOrEqual(200);
    expect(words.map(({ cuts }) => cuts)).toEqual(words.map(() => 0));
    // The noises come once, and go once.
    expect(changes).toBeLessThanOrEqual(2 * words.length + 2 * NOISES);
  });
});

describe('talk that does not end', () => {
  const isTalkAfter = (sound: Float32Array, afterMs: number) => {
    const isTalk: boolean[] = [];
    playLevels([{ name: 'a', levels: levelsOf(sound), fromMs: 0 }], (speakers, ms) => {
      if (ms >= afterMs) isTalk.push(speakers.isTalking('a'));
    });
    return new Set(isTalk);
  };

  test.each([-50, -45, -40, -35])(
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
