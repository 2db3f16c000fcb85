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
async function sayWords(
  { send }: ReturnType<typeof openTimedClient>,
  words: readonly Word[],
  pauseMs = PAUSE_MS,
) {
  for (const word of words) {
    await send(word.slice(0, -1), MESSAGE_MS);
    await send(word.slice(-1), pauseMs);
  }
}

describe('short words of an unknown format with pauses of 3 s, and then a talk', () => {
  test.each([
    ['one message', encrypted(1, [1], 512), 0],
    ['20 messages', encrypted(3, Array(20).fill(1), 400), 11],
    ['6 words of 200 ms', encrypted(4, Array(6).fill(10), 40), 0],
  ])('%s: those of the last 30 s are relayed, before the talk', async (_, words, tooOld) => {
    const client = openTimedClient(codecs);
    const { late } = counters.dropped;
    await sayWords(client, words);
    expect([client.relayed, client.detected]).toEqual([[], []]);
    const [talk] = encrypted(2, [50], 100);
    await client.send(talk!, MESSAGE_MS);
    expect(client.relayed).toEqual([...words.flat().slice(tooOld), ...talk!]);
    expect(client.detected.map(({ format }) => format)).toEqual(['opaque']);
    expect([counters.dropped.late - late, client.faults]).toEqual([tooOld, []]);
    client.input.close();
  });
});

/** Words of two messages of 64 KiB, of which no format is detected: more than are kept, in less than 30 s. */
const LONG_WORDS: readonly Word[] = Array.from({ length: 9 }, (_, i) =>
  [0, 1].map((second) => Buffer.alloc(64 * 1024, 7).fill(2 * i + second, 0, 2)),
);

test('more bytes before pauses than are kept: the oldest messages are dropped and counted', async () => {
  const client = openTimedClient(codecs);
  const { late } = counters.dropped;
  await sayWords(client, LONG_WORDS);
  const [talk] = encrypted(5, [50], 100);
  await client.send(talk!, MESSAGE_MS);
  expect(Buffer.concat(client.relayed)).toEqual(
    Buffer.concat([...LONG_WORDS.flat().slice(2), ...talk!]),
  );
  expect(counters.dropped.late - late).toBe(2);
  client.input.close();
});

test('messages that are skipped before pauses take no place from those after them, and are not late', async () => {
  const client = openTimedClient(codecs);
  const { late } = counters.dropped;
  for (const [i, message] of LONG_WORDS.flat().entries()) {
    client.input.skip(message, -90_000 + i * PAUSE_MS);
  }
  const words = encrypted(9, [1, 2], 100);
  await sayWords(client, words);
  const [talk] = encrypted(5, [50], 100);
  await client.send(talk!, MESSAGE_MS);
  expect(client.relayed).toEqual([...words.flat(), ...talk!]);
  expect(counters.dropped.late - late).toBe(0);
  client.input.close();
});

test('silence of which not all is sent is not relayed with the talk of an unknown format that follows it', async () => {
  const client = openTimedClient(codecs);
  const silence = Array.from({ length: 2 }, () => Buffer.alloc(640));
  await client.send(silence, 400);
  const [talk] = encrypted(6, [50], 100);
  await client.send(talk!, MESSAGE_MS);
  expect(client.relayed).toEqual(talk);
  client.input.close();
});

test('messages before pauses, and those of a detection, are counted when their client goes, unless they were skipped', async () => {
  const client = openTimedClient(codecs);
  const { late } = counters.dropped;
  client.input.skip(Buffer.from('not in a room'), -3000);
  await sayWords(client, encrypted(7, [1, 2], 100));
  await client.send(encrypted(8, [2], 100)[0]!, MESSAGE_MS);
  client.input.close();
  client.input.close();
  expect(counters.dropped.late - late).toBe(5);
  expect([client.relayed, client.faults]).toEqual([[], []]);
});

test.each(['pcm_s16le;rate=16000;channels=1', 'pcmu', 'opus'])(
  'messages of another kind before pauses, and then speech as %s: only the speech is heard, and as early as without them',
  async (format) => {
    const speech = await speechIn(format, 1000);
    const detectedAfterMs = async (before: Word[], pauseMs?: number) => {
      const client = openTimedClient(codecs);
      const { late } = counters.dropped;
      await sayWords(client, before, pauseMs);
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
    const keepAlives = Array.from({ length: 60 }, (_, i) => [
      Buffer.from(`{"type":"ping","at":${1_790_000_000_000 + 5000 * i}}`),
    ]);
    const alone = await detectedAfterMs([]);
    expect(await detectedAfterMs([[hello]])).toEqual(alone);
    expect(await detectedAfterMs(keepAlives, 5000)).toEqual(alone);
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

describe.each([
  'pcm_s16le;rate=16000;channels=1',
  'pcm_s16le;rate=48000;channels=2',
  'pcm_s16be;rate=8000;channels=1',
  'pcm_s24le;rate=48000;channels=1',
  'pcm_s24le;rate=16000;channels=2',
  'pcm_s32le;rate=24000;channels=1',
  'pcm_f32le;rate=48000;channels=1',
  'pcm_f32le;rate=44100;channels=2',
])('speech as %s behind a pause', (format) => {
  const heardOf = async (words: readonly Word[], speech: readonly Buffer[]) => {
    const client = openTimedClient(codecs);
    await sayWords(client, words);
    await client.send(speech, MESSAGE_MS);
    client.input.close();
    return { heard: client.packets, detected: client.detected.map((each) => each.format) };
  };

  test('that follows a message of any length: heard as without that message', async () => {
    const speech = await speechIn(format, 1000);
    const alone = await heardOf([], speech);
    expect(alone.detected).toEqual([format]);
    for (const length of [1, 2, 3, 5, 7, 12, 50, 51]) {
      const greeting = Buffer.from('hello, I am alice, and this is the rest of it all.\n');
      const heard = await heardOf([[greeting.subarray(0, length)]], speech);
      expect({ length, ...heard }).toEqual({ length, ...alone });
    }
  });

  test('and digital silence that follow a message of any length: heard as without that message', async () => {
    const speech = await speechIn(format, 1000);
    const silence = Array.from({ length: 30 }, () => Buffer.alloc(speech[0]!.length));
    const alone = await heardOf([], [...silence, ...speech]);
    for (const length of [1, 2, 3, 50, 51]) {
      const heard = await heardOf([[Buffer.alloc(length, 'hi')]], [...silence, ...speech]);
      expect({ length, ...heard }).toEqual({ length, ...alone });
    }
  });

  test('in the middle of a sample, in messages that cut samples: heard from the next sample on', async () => {
    const speech = await speechIn(format, 1500);
    const cutBytes = speech[0]!.length + 1;
    const bytes = Buffer.concat(speech);
    const messages = Array.from({ length: Math.floor(bytes.length / cutBytes) }, (_, i) =>
      bytes.subarray(i * cutBytes, (i + 1) * cutBytes),
    );
    const { detected } = await heardOf([messages.slice(0, 1)], messages.slice(1));
    expect(detected).toEqual([format]);
  });
});

test('floats behind a pause in the middle of a sample, in messages as long as whole ones: heard from the next sample on', async () => {
  const client = openTimedClient(codecs);
  const speech = await speechIn('pcm_f32le;rate=48000;channels=1', 1500);
  const bytes = Buffer.concat(speech);
  const wholeBytes = speech[0]!.length;
  const firstBytes = wholeBytes + 1;
  await sayWords(client, [[bytes.subarray(0, firstBytes)]]);
  const messages = Array.from({ length: speech.length - 2 }, (_, i) =>
    bytes.subarray(firstBytes + i * wholeBytes, firstBytes + (i + 1) * wholeBytes),
  );
  await client.send(messages, MESSAGE_MS);
  client.input.close();
  expect(client.detected.map(({ format }) => format)).toEqual(['pcm_f32le;rate=48000;channels=1']);
});
