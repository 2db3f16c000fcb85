import { expect, test } from 'vitest';
import { formatAudioFormat } from '../../../../../src/audio/format.ts';
import { FormatDetector } from '../../../../../src/audio/ingest/detection/detector.ts';
import {
  arrivalsOfUnknown,
  UNKNOWN_KINDS,
  unknownCases,
} from '../../../../support/unknown-corpus.ts';

/** The bench has all lengths. */
const MESSAGE_LENGTHS_MS = [20, 250];

/** Returns the verdicts on each stream of a kind. */
async function toldOf(kind: string) {
  const told: { name: string; is: string }[] = [];
  for (const unknownCase of unknownCases(1)) {
    if (unknownCase.kind !== kind || !MESSAGE_LENGTHS_MS.includes(unknownCase.messageMs)) continue;
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
