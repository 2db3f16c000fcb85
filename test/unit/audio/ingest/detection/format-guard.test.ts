import { describe, expect, test } from 'vitest';
import { formatAudioFormat, parseAudioFormat } from '../../../../../src/audio/format.ts';
import { FormatDetector } from '../../../../../src/audio/ingest/detection/detector.ts';
import { guardOf } from '../../../../../src/audio/ingest/detection/guard-of.ts';
import { PaceHistory } from '../../../../../src/audio/ingest/detection/pace-history.ts';
import type { TimedMessage } from '../../../../../src/audio/ingest/detection/pace.ts';
import { arrivalsOf } from '../../../../support/corpus.ts';
import { seededRandom } from '../../../../support/random.ts';

const FORMATS = [
  'opus',
  'pcmu',
  'pcma',
  'pcm_s16le;rate=8000;channels=1',
  'pcm_s16le;rate=16000;channels=1',
  'pcm_s16le;rate=48000;channels=1',
  'pcm_f32le;rate=48000;channels=1',
];
const RANDOM = 'random bytes';
const MESSAGE_MS = 20;
/** Longest time for which a wrong reading may be heard. */
const MOST_HEARD_MS = 100;

function randomMessages(): TimedMessage[] {
  const random = seededRandom(1);
  return Array.from({ length: 40 }, (_, i) => ({
    message: Buffer.from(Uint8Array.from({ length: 640 }, () => Math.floor(random() * 256))),
    atMs: 1000 + i * MESSAGE_MS,
  }));
}

const messagesOf = (name: string, seed: number, durationMs: number) =>
  name === RANDOM
    ? randomMessages()
    : arrivalsOf(
        { content: 'speech', format: parseAudioFormat(name), messageMs: MESSAGE_MS, seed },
        durationMs,
      );

/** A guard that has seen a second of speech. */
async function guardAfter(name: string) {
  const guard = guardOf(parseAudioFormat(name), new PaceHistory())!;
  let atBytes = 0;
  const looks = (await messagesOf(name, 1, 5000)).map(({ message, atMs }, i) => {
    if (i < 4) guard.learn(message, atMs);
    const look = i < 4 ? 'as_before' : guard.look(message, atBytes, atMs);
    atBytes += message.length;
    return look;
  });
  return { guard, atBytes, looks };
}

describe.each(FORMATS)('a guard of %s', (from) => {
  test('lets 5 s of speech pass', async () => {
    const { looks } = await guardAfter(from);
    expect(looks.length).toBeGreaterThan(200);
    expect(looks).not.toContain('wrong');
  });

  test.each([...FORMATS, RANDOM].filter((to) => to !== from))(
    'holds %s within 100 ms, and it is found out',
    async (to) => {
      const { guard, atBytes } = await guardAfter(from);
      const after = await messagesOf(to, 2, 1500);
      const wrongAt = after.findIndex(
        ({ message, atMs }) => guard.look(message, atBytes, atMs) === 'wrong',
      );
      expect(wrongAt).not.toBe(-1);
      expect(wrongAt * MESSAGE_MS).toBeLessThanOrEqual(MOST_HEARD_MS);
      const detector = new FormatDetector();
      const found = after
        .slice(wrongAt)
        .map(({ message, atMs }) => detector.push(message, atMs))
        .find((detection) => detection !== undefined);
      expect(formatAudioFormat(found!.format)).toBe(to === RANDOM ? 'opaque' : to);
    },
  );
});
