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
/** Longest time for which a wrong reading may be heard. */
const MOST_HEARD_MS = 100;

function randomMessages(messageMs: number): TimedMessage[] {
  const random = seededRandom(1);
  const length = 32 * messageMs;
  return Array.from({ length: 40 }, (_, i) => ({
    message: Buffer.from(Uint8Array.from({ length }, () => Math.floor(random() * 256))),
    atMs: 1000 + i * messageMs,
  }));
}

const made = new Map<string, Promise<TimedMessage[]>>();

/** Messages of speech in a format, or of random bytes, made once. */
function messagesOf(name: string, messageMs: number, seed: number, durationMs: number) {
  const key = `${name} ${messageMs} ${seed}`;
  const known = made.get(key);
  if (known) return known;
  const messages =
    name === RANDOM
      ? Promise.resolve(randomMessages(messageMs))
      : arrivalsOf(
          { content: 'speech', format: parseAudioFormat(name), messageMs, seed },
          durationMs,
        );
  made.set(key, messages);
  return messages;
}

/** A guard that has seen 5 s of speech. */
async function guardAfter(name: string, messageMs: number) {
  const guard = guardOf(parseAudioFormat(name), new PaceHistory())!;
  let atBytes = 0;
  const looks = (await messagesOf(name, messageMs, 1, 5000)).map(({ message, atMs }, i) => {
    if (i < 4) guard.learn(message, atMs);
    const look = i < 4 ? 'as_before' : guard.look(message, atBytes, atMs);
    atBytes += message.length;
    return look;
  });
  return { guard, atBytes, looks };
}

const guards = [20, 100].flatMap((messageMs) => FORMATS.map((from) => ({ from, messageMs })));

describe.each(guards)('a guard of $from in messages of $messageMs ms', ({ from, messageMs }) => {
  test('lets 5 s of speech pass', async () => {
    const { looks } = await guardAfter(from, messageMs);
    expect(looks.length).toBeGreaterThan(4000 / messageMs);
    expect(looks).not.toContain('wrong');
  });

  test.each([...FORMATS, RANDOM].filter((to) => to !== from))(
    'holds %s within 100 ms, and it is found out',
    async (to) => {
      const { guard, atBytes } = await guardAfter(from, messageMs);
      const after = await messagesOf(to, messageMs, 2, 1500);
      const wrongAt = after.findIndex(
        ({ message, atMs }) => guard.look(message, atBytes, atMs) === 'wrong',
      );
      expect(wrongAt).not.toBe(-1);
      expect(wrongAt * messageMs).toBeLessThanOrEqual(MOST_HEARD_MS);
      const detector = new FormatDetector();
      const found = after
        .slice(wrongAt)
        .map(({ message, atMs }) => detector.push(message, atMs))
        .find((detection) => detection !== undefined);
      expect(formatAudioFormat(found!.format)).toBe(to === RANDOM ? 'opaque' : to);
    },
  );
});
