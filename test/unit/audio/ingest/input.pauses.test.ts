import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { parseAudioFormat } from '../../../../src/audio/format.ts';
import { counters } from '../../../../src/counters.ts';
import { arrivalsOf } from '../../../support/corpus.ts';
import { seededRandom } from '../../../support/random.ts';
import { openTimedClient } from '../../../support/timed-client.ts';

/** Undeclared clients that pause for longer than sound is held. */

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
});

const MESSAGE_MS = 20;
const PAUSE_MS = 3000;

type Word = readonly Buffer[];

/** As encrypted messages are: of no format. */
function encrypted(seed: number, counts: number[], length: number): Word[] {
  const random = seededRandom(seed);
  return counts.map((count) =>
    Array.from({ length: count }, () =>
      Buffer.from(Uint8Array.from({ length }, () => random() * 256)),
    ),
  );
}

/** Messages of speech in a format. */
async function speechIn(name: string, durationMs: number): Promise<Buffer[]> {
  const format = parseAudioFormat(name);
  const speech = { content: 'speech', format, messageMs: MESSAGE_MS, seed: 1 } as const;
  return (await arrivalsOf(speech, durationMs)).map(({ message }) => message);
}

/** Sends words, with a pause after each. */
async function sayWords({ send }: ReturnType<typeof openTimedClient>, words: readonly Word[]) {
  for (const word of words) {
    await send(word.slice(0, -1), MESSAGE_MS);
    await send(word.slice(-1), PAUSE_MS);
  }
}

describe('words of an unknown format with pauses of 3 s: every message is handed on', () => {
  test.each([
    ['one message, then a talk', encrypted(1, [1], 512).concat(encrypted(2, [50], 100))],
    ['one message in 3 s', encrypted(3, Array(20).fill(1), 400)],
    ['words of 200 ms', encrypted(4, Array(6).fill(10), 40)],
  ])('%s', async (_, words) => {
    const client = openTimedClient(codecs);
    const { late } = counters.dropped;
    await sayWords(client, words);
    expect(client.relayed).toEqual(words.flat());
    expect(client.detected.map(({ format }) => format)).toEqual(['opaque']);
    expect([counters.dropped.late - late, client.faults]).toEqual([0, []]);
    client.input.close();
  });
});

test('more bytes before pauses than are kept: the oldest messages are dropped and counted', async () => {
  const client = openTimedClient(codecs);
  const { late } = counters.dropped;
  // Repetitions, of which no format is detected.
  const words = Array.from({ length: 20 }, (_, i) => [Buffer.alloc(64 * 1024, 7).fill(i, 0, 2)]);
  await sayWords(client, words);
  const [talk] = encrypted(5, [50], 100);
  await client.send(talk!, MESSAGE_MS);
  expect(Buffer.concat(client.relayed)).toEqual(
    Buffer.concat([...words.flat().slice(4), ...talk!]),
  );
  expect(counters.dropped.late - late).toBe(4);
  client.input.close();
});

test.each(['pcm_s16le;rate=16000;channels=1', 'pcmu', 'opus'])(
  'a message of another kind, a pause, and then speech as %s: only the speech is heard, and as early as without it',
  async (format) => {
    const speech = await speechIn(format, 1000);
    const detectedAfterMs = async (before: Word[]) => {
      const client = openTimedClient(codecs);
      const { late } = counters.dropped;
      await sayWords(client, before);
      const fromMs = client.now();
      await client.send(speech, MESSAGE_MS);
      expect(client.detected.map((each) => each.format)).toEqual([format]);
      expect(counters.dropped.late - late).toBe(before.length);
      expect([client.relayed, client.faults]).toEqual([[], []]);
      client.input.close();
      expect(client.packets.length).toBeGreaterThan(40);
      return client.detected[0]!.atMs - fromMs;
    };
    const hello = Buffer.from('{"type":"hello","name":"alice","versions":[1,2,3]}'.repeat(20));
    expect(await detectedAfterMs([[hello]])).toEqual(await detectedAfterMs([]));
  },
);

test.each([
  'opus',
  'pcmu',
  'pcma',
  'g722',
  'pcm_u8;rate=8000;channels=1',
  'pcm_s16le;rate=8000;channels=1',
  'pcm_s16le;rate=48000;channels=2',
  'pcm_s16be;rate=16000;channels=1',
  'pcm_s24le;rate=48000;channels=1',
  'pcm_f32le;rate=44100;channels=1',
])('words of one or two messages of speech as %s: none is relayed', async (name) => {
  const speech = await speechIn(name, 3000);
  for (const count of [1, 2]) {
    const client = openTimedClient(codecs);
    const words = Array.from({ length: 40 }, (_, i) => speech.slice(i * count, (i + 1) * count));
    await sayWords(client, words);
    expect(client.detected.map(({ format }) => format)).not.toContain('opaque');
    expect(client.relayed).toEqual([]);
    client.input.close();
  }
});
