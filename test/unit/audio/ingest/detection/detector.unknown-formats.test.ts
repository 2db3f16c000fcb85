import { expect, test } from 'vitest';
import { formatAudioFormat } from '../../../../../src/audio/format.ts';
import { FormatDetector } from '../../../../../src/audio/ingest/detection/detector.ts';
import { seededRandom } from '../../../../support/random.ts';
import {
  arrivalsOfUnknown,
  UNKNOWN_KINDS,
  unknownCases,
} from '../../../../support/unknown-corpus.ts';

/** The bench has all lengths. */
const MESSAGE_LENGTHS_MS = [20, 250];

/** Returns the verdicts on each stream of a kind. */
async function toldOf(
  kind: string,
  {
    seeds = 1,
    messageLengthsMs = MESSAGE_LENGTHS_MS,
  }: { seeds?: number; messageLengthsMs?: number[] } = {},
) {
  const told: { name: string; is: string }[] = [];
  for (const unknownCase of unknownCases(seeds)) {
    if (unknownCase.kind !== kind || !messageLengthsMs.includes(unknownCase.messageMs)) continue;
    const arrivals = (await arrivalsOfUnknown(unknownCase)) ?? [];
    const detector = new FormatDetector();
    const detection = arrivals
      .map(({ message, atMs }) => detector.push(message, atMs))
      .find((found) => found !== undefined);
    const is =
      detection && !detector.isSilentSoFar ? formatAudioFormat(detection.format) : 'nothing';
    told.push({ name: `${unknownCase.content}, ${unknownCase.messageMs} ms`, is });
  }
  return told;
}

test.each([...UNKNOWN_KINDS.keys()])(
  'FormatDetector.push() of %s: told rightly, or unknown',
  async (kind) => {
    const [right] = UNKNOWN_KINDS.get(kind)!;
    const told = await toldOf(kind);
    expect(told).toHaveLength(4);
    const wrong = told.filter(({ is }) => ![right, 'opaque', 'nothing'].includes(is));
    // The pace of samples may be judged wrongly, as of any others: those are counted by the bench.
    expect(
      wrong.filter(({ is }) => !right.startsWith('pcm') || !is.startsWith(right.split(';')[0]!)),
    ).toEqual([]);
  },
);

test.each(['aac_adts', 'mp3', 'mp3 (ID3, variable rate)'])(
  'FormatDetector.push() of %s from the middle of a frame on: told rightly in 99 of 100 streams',
  async (kind) => {
    const [right] = UNKNOWN_KINDS.get(kind)!;
    const told = await toldOf(kind, { seeds: 20, messageLengthsMs: [10, 20, 40, 60] });
    expect(told).toHaveLength(160);
    expect(told.filter(({ is }) => is !== right).length).toBeLessThanOrEqual(1);
  },
);

test('FormatDetector.push() of random bytes does not wait for frames that may begin in them', () => {
  const random = seededRandom(7);
  const waitsMs = Array.from({ length: 100 }, () => {
    const detector = new FormatDetector();
    for (let atMs = 0; ; atMs += 20) {
      const message = Buffer.from(Array.from({ length: 320 }, () => Math.floor(256 * random())));
      if (detector.push(message, atMs)) return atMs;
    }
  });
  expect(waitsMs.filter((ms) => ms > 140).length).toBeLessThanOrEqual(15);
});
