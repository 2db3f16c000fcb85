import { describe, expect, test } from 'vitest';
import { ActiveSpeakers } from '../../../../src/audio/mixing/active-speakers.ts';
import { seededRandom } from '../../../support/random.ts';

const newTalkers = (maxMixed = 8) =>
  new ActiveSpeakers<string>({ thresholdLevel: 65, holdMs: 500, maxMixed });

describe('ActiveSpeakers', () => {
  test('heard() begins talk at the threshold, and not below it', () => {
    const talkers = newTalkers();
    expect(talkers.heard('quiet', 66, 960, 0)).toBe(false);
    expect(talkers.heard('loud', 65, 960, 0)).toBe(true);
    expect([...talkers.mixed]).toEqual(['loud']);
  });

  test('heard() takes a packet without a level for loud', () => {
    const talkers = newTalkers();
    talkers.heard('unlevelled', undefined, 960, 0);
    expect(talkers.isTalking('unlevelled')).toBe(true);
  });

  test('a pause shorter than the hold time does not end talk; a longer one does', () => {
    const talkers = newTalkers();
    talkers.heard('a', 30, 960, 0);
    expect(talkers.heard('a', 127, 960, 500)).toBe(false);
    expect(talkers.isTalking('a')).toBe(true);
    expect(talkers.heard('a', 127, 960, 501)).toBe(true);
    expect(talkers.isSilent).toBe(true);
  });

  test('expire() ends the talk of one that sends nothing any more', () => {
    const talkers = newTalkers();
    talkers.heard('a', 30, 960, 0);
    expect(talkers.expire(500)).toBe(false);
    expect(talkers.expire(501)).toBe(true);
    expect(talkers.mixed.size).toBe(0);
  });

  test('only the loudest are mixed; one that is not clearly louder takes nobody’s place', () => {
    const talkers = newTalkers(2);
    talkers.heard('a', 30, 960, 0);
    talkers.heard('b', 40, 960, 0);
    talkers.heard('c', 36, 960, 0);
    expect([...talkers.mixed]).toEqual(['a', 'b']);
    talkers.heard('d', 30, 960, 0);
    expect([...talkers.mixed]).toEqual(['a', 'd']);
    expect(talkers.levels()).toHaveLength(4);
  });

  test.each([2.5, 20, 60, 120])(
    'one that becomes clearly louder takes a place within 200 ms, but not by a cough, in packets of %f ms',
    (packetMs) => {
      const talkers = newTalkers(1);
      for (let i = 0; i < 10; i += 1) talkers.heard('a', 40, 960, 0);
      talkers.heard('b', 60, packetMs * 48, 0);
      let nowMs = 0;
      while (!talkers.mixed.has('b')) {
        nowMs += packetMs;
        talkers.heard('b', 20, packetMs * 48, nowMs);
        talkers.heard('a', 40, packetMs * 48, nowMs);
      }
      expect(nowMs).toBeGreaterThanOrEqual(Math.min(80, packetMs));
      expect(nowMs).toBeLessThanOrEqual(200);
    },
  );

  test('the loudest that waits takes the place of one that stops', () => {
    const talkers = newTalkers(1);
    talkers.heard('a', 20, 960, 0);
    talkers.heard('b', 40, 960, 0);
    talkers.heard('c', 25, 960, 0);
    talkers.delete('a');
    expect([...talkers.mixed]).toEqual(['c']);
  });

  test('a fan that waits does not take the place of one that stops', () => {
    const talkers = newTalkers(1);
    for (let ms = 0; ms < 3000; ms += 20) {
      talkers.heard('speaker', 20 + (ms % 100) / 5, 960, ms);
      talkers.heard('fan', 40, 960, ms);
    }
    expect([...talkers.mixed]).toEqual(['speaker']);
    talkers.delete('speaker');
    expect(talkers.isTalking('fan')).toBe(true);
    expect([...talkers.mixed]).toEqual([]);
  });

  /** Eight open microphones whose fans are so loud, and a level for each of those that speak; a packet each every 20 ms. */
  function talkOverFans(fanLevel: number, speakers: ((ms: number) => number)[], forMs: number) {
    const talkers = newTalkers();
    const random = seededRandom(3);
    const heardMs = speakers.map(() => 0);
    let [changes, mixed] = [0, ''];
    for (let ms = 0; ms < forMs; ms += 20) {
      for (let fan = 0; fan < 8; fan += 1) {
        talkers.heard(`fan ${fan}`, Math.round(fanLevel + 2 * random() - 1), 960, ms);
      }
      for (const [i, levelAt] of speakers.entries()) {
        talkers.heard(`speaker ${i}`, levelAt(ms), 960, ms);
        if (talkers.mixed.has(`speaker ${i}`)) heardMs[i]! += 20;
      }
      talkers.expire(ms);
      const now = [...talkers.mixed].toSorted().join();
      if (now !== mixed) changes += 1;
      mixed = now;
    }
    return { talkers, heardMs, changes };
  }

  /** A second of speech, whose first packet is soft, and a second of digital silence. */
  const words = (level: number, fromMs: number) => (ms: number) => {
    const inWordMs = (ms - fromMs) % 2000;
    if (ms < fromMs || inWordMs >= 1000) return 127;
    return inWordMs < 20 ? 62 : level + (inWordMs % 100 < 60 ? 0 : 12);
  };

  test.each([
    [50, 10],
    [45, 10],
    [40, 10],
    [35, 10],
    [50, 6],
    [40, 6],
    [35, 6],
  ])(
    'eight fans at -%i dBov: who speaks %i dB louder is heard within 200 ms of each word',
    (fanLevel, louderDb) => {
      const { heardMs } = talkOverFans(fanLevel, [words(fanLevel - louderDb, 3000)], 13_000);
      expect(heardMs[0]).toBeGreaterThanOrEqual(5 * 800);
    },
  );

  test('eight fans and three that speak: places change no more often than words begin and end', () => {
    const speakers = [words(26, 3000), words(24, 3500), words(30, 4100)];
    const { heardMs, changes } = talkOverFans(40, speakers, 63_000);
    for (const ms of heardMs) expect(ms).toBeGreaterThan(0.95 * 30 * 1000);
    // Eight come, three speakers come thirty times each, and go as often.
    expect(changes).toBeLessThanOrEqual(8 + 3 + 3 * 60);
  });

  test('a fan counts as talk no longer than a note that is held', () => {
    const { talkers } = talkOverFans(40, [], 9900);
    expect(talkers.levels()).toHaveLength(8);
    expect(talkOverFans(40, [], 11_000).talkers.isSilent).toBe(true);
  });

  test('a note that is louder than noise stays talk, however long it is held', () => {
    const talkers = newTalkers();
    for (let ms = 0; ms < 20_000; ms += 20) talkers.heard('singer', 26, 960, ms);
    expect(talkers.isTalking('singer')).toBe(true);
  });

  test('a speaker beside a fan that has been heard for long: heard from the first word on, and not after it', () => {
    const levelAt = (ms: number) => (ms >= 15_000 && ms < 16_000 ? 26 : 40);
    const talkers = newTalkers();
    const heardMs: number[] = [];
    for (let ms = 0; ms < 18_000; ms += 20) {
      talkers.heard('a', levelAt(ms), 960, ms);
      if (ms > 12_000 && talkers.isTalking('a')) heardMs.push(ms);
    }
    expect(heardMs[0]).toBe(15_000);
    expect(heardMs.at(-1)).toBeLessThan(16_600);
  });

  test('levels are averaged as power, and pauses do not count', () => {
    const talkers = newTalkers();
    for (let ms = 0; ms < 1000; ms += 20) talkers.heard('a', ms % 200 < 100 ? 26 : 127, 960, ms);
    expect(talkers.levels()).toEqual([['a', 26]]);
    for (let ms = 0; ms < 1000; ms += 20) talkers.heard('b', ms % 40 === 0 ? 20 : 40, 960, ms);
    expect(talkers.levels().at(-1)![1]).toBe(23);
  });
});
