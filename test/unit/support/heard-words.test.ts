import { describe, expect, test } from 'vitest';
import { compareEntry } from '../../support/heard-words.ts';
import { noise } from '../../support/speech.ts';

const BURST_SAMPLES = 480;
const WORD = { fromSample: 9600, samples: 28_800 };
/** Position of the moment in the word at which a listener goes over to another delay, samples. */
const MOVED_AT = 8640;
const LATE_SAMPLES = 960;

/** Noise in bursts of 10 ms, of which every third one is loud: its level tells what moment is heard. */
const said = noise(-26, 1000, 4).map((sample, i) =>
  Math.floor(i / BURST_SAMPLES) % 3 === 0 ? sample : sample / 10,
);

/** The word as it is heard: its beginning with a gain, and what follows `movedBy` samples later. */
function hear({ gainDb = 0, movedBy = 0 }) {
  const { fromSample, samples } = WORD;
  const beginning = said.subarray(fromSample, fromSample + MOVED_AT);
  const sound = new Float32Array(samples + movedBy);
  sound.set(beginning.map((sample) => sample * 10 ** (gainDb / 20)));
  sound.set(said.subarray(fromSample + MOVED_AT, fromSample + samples), MOVED_AT + movedBy);
  return compareEntry([said], [{ fromSample: fromSample + LATE_SAMPLES, sound }], WORD);
}

describe('compareEntry()', () => {
  test('a word that is heard as it was said is neither too loud, too soft nor late', () => {
    const { loudestDb, softMs, lateMs } = hear({});
    expect(loudestDb).toBeCloseTo(0);
    expect({ softMs, lateMs }).toEqual({ softMs: 0, lateMs: 0 });
  });

  test.each([-600, 600])(
    'a beginning is compared where it is heard, though the middle of the word is heard %i samples later than that',
    (movedBy) => {
      const { loudestDb, softMs, lateMs } = hear({ movedBy });
      expect(loudestDb).toBeCloseTo(0);
      expect({ softMs, lateMs }).toEqual({ softMs: 0, lateMs: 0 });
    },
  );

  test.each([
    [10, 0],
    [10, 600],
  ])('a beginning that is %i dB too loud is found, moved by %i samples', (gainDb, movedBy) => {
    expect(hear({ gainDb, movedBy }).loudestDb).toBeCloseTo(gainDb);
  });

  test.each([0, 600])(
    'a beginning that is 10 dB too soft is found, moved by %i samples',
    (movedBy) => {
      expect(hear({ gainDb: -10, movedBy }).softMs).toBeGreaterThanOrEqual(40);
    },
  );
});
