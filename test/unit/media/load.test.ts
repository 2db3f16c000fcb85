import { describe, expect, test } from 'vitest';
import { leastLoaded, type MediaWorkerLoad } from '../../../src/media/load.ts';

const IDLE: MediaWorkerLoad = { cpuShare: 0, routers: 0, consumers: 0 };
const workers = (...loads: Partial<MediaWorkerLoad>[]) =>
  loads.map((load, index) => ({ index, load: { ...IDLE, ...load } }));
const chosenOf = (...loads: Partial<MediaWorkerLoad>[]) => leastLoaded(workers(...loads))?.index;

describe('leastLoaded()', () => {
  test('takes the one that uses least CPU, not the one whose turn it is', () => {
    expect(chosenOf({ cpuShare: 0.4 }, { cpuShare: 0.1 }, { cpuShare: 0.2 })).toBe(1);
  });

  test('takes the one with fewest consumers when none uses CPU: they may all speak in a moment', () => {
    expect(chosenOf({ consumers: 30 }, { consumers: 40 }, { consumers: 20 })).toBe(2);
  });

  test('one that is busy is left alone even if it has fewer routers and consumers', () => {
    expect(chosenOf({ cpuShare: 0.9 }, { cpuShare: 0.1, routers: 20, consumers: 300 })).toBe(1);
  });

  test('rooms that open between two measurements spread, and fill up who is less busy', () => {
    const pool = workers({}, {}, {}, { cpuShare: 0.02 });
    for (let room = 0; room < 40; room += 1) {
      const least = leastLoaded(pool);
      if (least) least.load.routers += 1;
    }
    expect(pool.map(({ load }) => load.routers)).toEqual([11, 11, 11, 7]);
  });

  test('there is none among none', () => {
    expect(chosenOf()).toBeUndefined();
  });
});
