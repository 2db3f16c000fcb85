import { describe, expect, test } from 'vitest';
import { Talkers } from '../../src/audio/mixing/talkers.ts';

const newTalkers = (maxMixed = 8) =>
  new Talkers<string>({ thresholdLevel: 65, holdMs: 500, maxMixed });

describe('Talkers', () => {
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

  test('expire() ends the talk of one who sends nothing any more', () => {
    const talkers = newTalkers();
    talkers.heard('a', 30, 960, 0);
    expect(talkers.expire(500)).toBe(false);
    expect(talkers.expire(501)).toBe(true);
    expect(talkers.mixed.size).toBe(0);
  });

  test('only the loudest are mixed; one who is not clearly louder takes nobody’s place', () => {
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
    'one who becomes clearly louder takes a place after as long, in packets of %f ms',
    (packetMs) => {
      const talkers = newTalkers(1);
      talkers.heard('a', 40, 960, 0);
      talkers.heard('b', 60, 960, 0);
      let nowMs = 0;
      while (!talkers.mixed.has('b')) {
        nowMs += packetMs;
        talkers.heard('b', 20, packetMs * 48, nowMs);
        talkers.heard('a', 40, packetMs * 48, nowMs);
      }
      expect(nowMs).toBeGreaterThanOrEqual(960);
      expect(nowMs).toBeLessThanOrEqual(1140);
    },
  );

  test('the loudest who waits takes the place of one who stops', () => {
    const talkers = newTalkers(1);
    talkers.heard('a', 20, 960, 0);
    talkers.heard('b', 40, 960, 0);
    talkers.heard('c', 25, 960, 0);
    talkers.delete('a');
    expect([...talkers.mixed]).toEqual(['c']);
  });
});
