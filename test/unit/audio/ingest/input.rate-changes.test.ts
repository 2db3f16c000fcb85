import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { formatAudioFormat } from '../../../../src/audio/format.ts';
import { PaceHistory } from '../../../../src/audio/ingest/detection/pace-history.ts';
import { PaceWatch } from '../../../../src/audio/ingest/detection/pace-watch.ts';
import { firstSoundCases, hearFirstSound, nameOfFirstSound } from '../../../support/first-sound.ts';
import {
  findRateChange,
  nameOfChange,
  type Network,
  NETWORKS,
  rateChanges,
} from '../../../support/format-changes.ts';
import { seededRandom } from '../../../support/random.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
});

/** A fraction of the corpus in which each rate, length and seed comes in turn. */
const EVERY = 97;
const changesOver = (network: Network) =>
  [...rateChanges(3)]
    .filter((change) => change.network === network)
    .filter((_, i) => i % EVERY === 0);

/** Longest time until a change is found out, ms of sound, and share of the changes of which more is allowed. */
const LIMITS: Record<Network, { ms: number; share: number }> = {
  steady: { ms: 1010, share: 0 },
  // Jitter leaves the sixth message of 200 ms in doubt: one more is waited for.
  jitter: { ms: 1210, share: 0.1 },
  // While the network stalls, nothing can be known.
  stall: { ms: 1510, share: 0.15 },
};

describe('a change of rate, messages of 10 to 200 ms', () => {
  test.each(NETWORKS)('%s: found out in time', async (network) => {
    const { ms, share } = LIMITS[network];
    const changes = changesOver(network);
    const late: string[] = [];
    for (const change of changes) {
      const afterMs = await findRateChange(change, codecs);
      if (afterMs > ms) late.push(`${nameOfChange(change)}: ${afterMs} ms`);
    }
    expect(changes.length).toBeGreaterThan(25);
    expect(late.slice(Math.floor(share * changes.length))).toEqual([]);
  });

  test('44.1 to 48 kHz and back with messages of 1024 samples: found out by their pace alone', async () => {
    for (const [fromHz, toHz] of [
      [44_100, 48_000],
      [48_000, 44_100],
    ] as const) {
      for (let seed = 1; seed <= 3; seed += 1) {
        const messageMs = 1_024_000 / toHz;
        const change = { fromHz, toHz, kept: 'bytes', messageMs, network: 'steady', seed } as const;
        expect(await findRateChange(change, codecs)).toBeLessThan(1010);
      }
    }
  });
});

describe('PaceWatch.push() of a rate that does not change', () => {
  const RATE_HZ = 48_000;
  const BYTES_PER_MS = (2 * RATE_HZ) / 1000;
  const RATIOS = [8, 11.025, 12, 16, 22.05, 24, 32, 44.1, 88.2, 96].map(
    (kHz) => (1000 * kHz) / RATE_HZ,
  );
  const MINUTES = 10;

  /** Counts the changes that are told of ten minutes of messages, of which each arrives `delayMs` after it was sent. */
  function toldOf(messageMs: number, delayMs: (sentMs: number) => number): number {
    const history = new PaceHistory();
    const watch = new PaceWatch(BYTES_PER_MS, RATIOS, history);
    let told = 0;
    let lastMs = 0;
    for (let sentMs = 0; sentMs < MINUTES * 60_000; sentMs += messageMs) {
      lastMs = Math.max(lastMs + 0.05, sentMs + delayMs(sentMs));
      if (!watch.push(messageMs * BYTES_PER_MS, lastMs)) continue;
      history.addChange(lastMs);
      told += 1;
    }
    return told;
  }

  test.each([10, 20, 60, 100, 200])(
    '%i ms, jitter of 20 ms either way: never told',
    (messageMs) => {
      const random = seededRandom(messageMs);
      expect(toldOf(messageMs, () => 40 * random())).toBe(0);
    },
  );

  test.each([10, 20, 60, 100, 200])(
    '%i ms, half a second that stalls every 4 s: never told',
    (messageMs) => {
      expect(toldOf(messageMs, (sentMs) => Math.max(0, 500 - (sentMs % 4000)))).toBe(0);
    },
  );

  test.each([10, 20, 60, 100, 200])(
    '%i ms, half the pace for 400 ms every 10 s: never told',
    (messageMs) => {
      /** The delay grows for 400 ms, and what has piled up comes at twice the pace then. */
      const delayMs = (sentMs: number) => {
        const intoMs = sentMs % 10_000;
        return intoMs < 200 ? intoMs : Math.max(0, 200 - (intoMs - 200) / 2);
      };
      expect(toldOf(messageMs, delayMs)).toBe(0);
    },
  );
});

test('silence, then speech and music in each format: the first sound is read rightly', async () => {
  const cases = [...firstSoundCases(12)].filter((_, i) => i % 53 === 0);
  const wrong: string[] = [];
  for (const firstSound of cases) {
    const { told, wrongMs } = await hearFirstSound(firstSound, codecs);
    const isRight = told.at(-1) === formatAudioFormat(firstSound.format);
    if (!isRight || wrongMs > 0) wrong.push(`${nameOfFirstSound(firstSound)}: ${told.join(', ')}`);
  }
  expect(cases.length).toBeGreaterThan(50);
  expect(wrong).toEqual([]);
}, 120_000);
