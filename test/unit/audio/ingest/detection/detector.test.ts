import { describe, expect, test } from 'vitest';
import {
  type Detection,
  FormatDetector,
  WeighingTurns,
} from '../../../../../src/audio/ingest/detection/detector.ts';
import type { TimedMessage } from '../../../../../src/audio/ingest/detection/pace.ts';
import {
  formatAudioFormat,
  parseAudioFormat,
  type SampleFormat,
} from '../../../../../src/audio/format.ts';
import { writeSamples } from '../../../../../src/audio/samples.ts';
import {
  arrivalsOf,
  type CorpusCase,
  corpusCases,
  CONTENTS,
  FORMATS,
  nameOf,
  soundOf,
  streamOf,
} from '../../../../support/corpus.ts';
import { oggOpus } from '../../../../support/containers.ts';
import { seededRandom } from '../../../../support/random.ts';
import { opusTone, sampleMessages } from '../../../../support/sound.ts';

function detect(arrivals: TimedMessage[]): { detection: Detection; afterMs: number } | undefined {
  const detector = new FormatDetector();
  for (const { message, atMs } of arrivals) {
    const detection = detector.push(message, atMs);
    if (detection) return { detection, afterMs: atMs - arrivals[0]!.atMs };
  }
  return undefined;
}

const everyMs = (ms: number, messages: Buffer[]): TimedMessage[] =>
  messages.map((message, i) => ({ message, atMs: i * ms }));

describe('FormatDetector.push() over the corpus', () => {
  const cases = [...corpusCases(1)];
  const isRight = async (corpusCase: CorpusCase) => {
    const found = detect(await arrivalsOf(corpusCase));
    const name = found && formatAudioFormat(found.detection.format);
    return name === formatAudioFormat(corpusCase.format) && found!.afterMs <= 500;
  };

  test.each(CONTENTS)('%s: 99 of 100 streams are told within half a second', async (content) => {
    const ofContent = cases.filter((corpusCase) => corpusCase.content === content);
    const wrong: string[] = [];
    for (const corpusCase of ofContent) {
      if (!(await isRight(corpusCase))) wrong.push(nameOf(corpusCase));
    }
    expect(ofContent.length).toBe(FORMATS.length * 6);
    const atMost = Math.floor(ofContent.length / 100);
    expect(wrong.slice(atMost)).toEqual([]);
  });
});

test.each(['speech', 'music'] as const)(
  'FormatDetector.push() of %s with 0.3 s of digital silence in it: 99 of 100 streams are told',
  async (content) => {
    const wrong: string[] = [];
    const cases = [...corpusCases(1)].filter((corpusCase) => corpusCase.content === content);
    for (const [index, { format, messageMs }] of cases.entries()) {
      const random = seededRandom(index);
      const parts = [
        { content, durationMs: 400 * random() },
        { content: 'zeros' as const, durationMs: 300 },
        { content, durationMs: Math.max(400, 3 * messageMs) },
      ];
      const found = detect(await streamOf(parts, { format, messageMs, random }));
      const name = formatAudioFormat(format);
      const told = found && formatAudioFormat(found.detection.format);
      if (told !== name) wrong.push(`${name}, ${messageMs} ms: ${told}`);
    }
    expect(cases.length).toBe(FORMATS.length * 6);
    expect(wrong.slice(Math.floor(cases.length / 100))).toEqual([]);
  },
);

describe('FormatDetector.push() of streams that do not come evenly', () => {
  /** Delays messages that come within a span of time until it is over. */
  const heldUp = (fromMs: number, forMs: number, arrivals: TimedMessage[]): TimedMessage[] => {
    const stallsAtMs = arrivals[0]!.atMs + fromMs;
    let lastMs = 0;
    return arrivals.map(({ message, atMs }, i) => {
      const isHeldUp = atMs >= stallsAtMs && atMs < stallsAtMs + forMs;
      lastMs = Math.max(lastMs, isHeldUp ? stallsAtMs + forMs + i * 0.05 : atMs);
      return { message, atMs: lastMs };
    });
  };

  test.each([
    ['the first 100 ms come at once', -5, 105],
    ['the first 300 ms come at once', -5, 305],
    ['nothing comes for 300 ms after 60 ms', 60, 300],
    ['nothing comes for 200 ms after 100 ms', 100, 200],
    ['nothing comes for 300 ms after 250 ms', 250, 300],
  ])('%s: 95 of 100 are told all the same, within 500 ms of sound', async (_, fromMs, forMs) => {
    const cases = [...corpusCases(1)].filter(
      ({ content, messageMs }) => ['speech', 'tones'].includes(content) && messageMs <= 100,
    );
    const wrong: string[] = [];
    for (const corpusCase of cases) {
      const arrivals = heldUp(fromMs, forMs, await arrivalsOf(corpusCase, 1100));
      const found = detect(arrivals);
      const name = found && formatAudioFormat(found.detection.format);
      const isRight = name === formatAudioFormat(corpusCase.format);
      if (!isRight || found!.afterMs > 700) wrong.push(`${nameOf(corpusCase)}: ${name}`);
    }
    expect(cases.length).toBe(FORMATS.length * 2 * 5);
    expect(wrong.slice(Math.floor(cases.length / 20))).toEqual([]);
  });
});

describe('FormatDetector.push() of what a computer makes, which repeats itself exactly', () => {
  const sine = (phase: number) => Math.sin(phase);
  const square = (phase: number) => (Math.sin(phase) < 0 ? -1 : 1);
  const sampleFormats = FORMATS.filter((format) => format.codec !== 'opus');
  const messagesOf = (format: SampleFormat, wave: (phase: number) => number, hz: number) =>
    [0.05, 0.25, 0.8].map((amplitude) => {
      const sound = Float32Array.from(
        { length: format.rateHz },
        (_, i) => amplitude * wave((2 * Math.PI * hz * i) / format.rateHz),
      );
      return everyMs(20, sampleMessages(format, sound));
    });
  const isTold = (format: SampleFormat, arrivals: TimedMessage[]) =>
    formatAudioFormat(detect(arrivals)!.detection.format) === formatAudioFormat(format);

  test.each([200, 400, 425, 440, 480, 500, 800, 1000, 1600])(
    'a tone of %i Hz in each format, loud and soft: told',
    (hz) => {
      const wrong = sampleFormats.filter((format) =>
        messagesOf(format, sine, hz).some((arrivals) => !isTold(format, arrivals)),
      );
      expect(wrong.map(formatAudioFormat)).toEqual([]);
    },
  );

  test('a square wave of 500 Hz in each format but G.711, loud and soft: told', () => {
    const wrong = sampleFormats
      .filter(({ codec }) => codec.startsWith('pcm_'))
      .filter((format) =>
        messagesOf(format, square, 500).some((arrivals) => !isTold(format, arrivals)),
      );
    expect(wrong.map(formatAudioFormat)).toEqual([]);
  });

  test.each([[40], [120]])('the same Opus packet of %i bytes over and over: told', (bytes) => {
    const random = seededRandom(bytes);
    const packet = Buffer.from(Array.from({ length: bytes }, () => Math.floor(random() * 256)));
    packet[0] = 0x78;
    const found = detect(everyMs(20, Array<Buffer>(40).fill(packet)));
    expect(found?.detection.format).toEqual({ codec: 'opus' });
  });

  test('samples on one of two channels: told as two', () => {
    const format: SampleFormat = { codec: 'pcm_s16le', rateHz: 16_000, channels: 2 };
    const sound = Float32Array.from({ length: 32_000 }, (_, i) =>
      i % 2 === 0 ? 0 : 0.3 * Math.sin(i * 0.11) * Math.sin(i * 0.00037),
    );
    const bytes = writeSamples(sound, 'pcm_s16le');
    const messages = Array.from({ length: 50 }, (_, i) => bytes.subarray(i * 1280, (i + 1) * 1280));
    expect(isTold(format, everyMs(20, messages))).toBe(true);
  });
});

describe('FormatDetector.push()', () => {
  test('of a container: told by how it begins, also cut in two', () => {
    const ogg = oggOpus([], 20)[0]!.subarray(0, 40);
    expect(detect(everyMs(20, [ogg]))?.detection.format).toEqual({ codec: 'ogg_opus' });
    const cutOgg = [ogg.subarray(0, 3), ogg.subarray(3)];
    expect(detect(everyMs(20, cutOgg))?.detection.format).toEqual({ codec: 'ogg_opus' });
    const cut = [Buffer.of(0x1a, 0x45), Buffer.of(0xdf, 0xa3, 0x9f)];
    expect(detect(everyMs(20, cut))?.detection.format).toEqual({ codec: 'webm_opus' });
  });

  test.each([
    ['pcmu', 0xff, 160],
    ['pcma', 0xd5, 160],
    ['pcm_u8;rate=16000;channels=1', 0x80, 320],
    ['g722', 0xfa, 160],
    ['pcm_s16le;rate=16000;channels=1', 0, 640],
    ['pcm_s16le;rate=48000;channels=1', 0, 1920],
  ])('of digital silence: guesses %s, and says that it was silent', (format, byte, bytes) => {
    const detector = new FormatDetector();
    const found = everyMs(20, Array<Buffer>(30).fill(Buffer.alloc(bytes, byte)))
      .map(({ message, atMs }) => detector.push(message, atMs))
      .find((detection) => detection !== undefined);
    expect(found && formatAudioFormat(found.format)).toBe(format);
    expect(detector.isSilentSoFar).toBe(true);
  });

  test.each([
    ['a type byte before each payload', 0x00, 80, 20],
    ['a type byte before 60 ms', 0x00, 120, 60],
    ['AMR-WB', 0x44, 61, 20],
    ['a type byte that is the head of 2.5 ms', 0x80, 160, 20],
  ])(
    'of %s, which a packet of Opus may begin with at another pace: unknown',
    (_, head, bytes, ms) => {
      const random = seededRandom(head + bytes);
      const messages = Array.from({ length: 40 }, () => {
        const message = Buffer.from(
          Array.from({ length: bytes }, () => Math.floor(random() * 256)),
        );
        message[0] = head;
        return message;
      });
      expect(detect(everyMs(ms, messages))?.detection.format).toEqual({ codec: 'opaque' });
    },
  );

  test('of Opus from a machine that encodes 20 ms in 33 ms: told as Opus', async () => {
    const packets = await opusTone(500, 0.25, 1000);
    expect(detect(everyMs(33, packets))?.detection.format).toEqual({ codec: 'opus' });
  });

  test.each([2, 3, 6, 12])(
    'of floats that a gain node has amplified to a peak of %i: told, and the stream stays what it is',
    (peak) => {
      for (const [rateHz, content] of [
        [16_000, 'speech'],
        [48_000, 'speech'],
        [48_000, 'music'],
      ] as const) {
        const sound = soundOf(content, rateHz, 1000, seededRandom(peak + rateHz));
        const most = Math.max(...sound.map(Math.abs));
        const bytes = Buffer.alloc(4 * sound.length);
        sound.forEach((value, i) => bytes.writeFloatLE((value / most) * peak, 4 * i));
        const messages = Array.from({ length: 50 }, (_, i) =>
          bytes.subarray((i * bytes.length) / 50, ((i + 1) * bytes.length) / 50),
        );
        const found = detect(everyMs(20, messages));
        expect(found?.detection.format).toEqual({ codec: 'pcm_f32le', rateHz, channels: 1 });
      }
    },
  );

  test.each([
    ['pcm_f32le;rate=48000;channels=1', 40, 7],
    ['pcm_f32le;rate=48000;channels=1', 60, 19],
    ['pcm_f32le;rate=48000;channels=1', 100, 7],
    ['pcm_s16le;rate=48000;channels=1', 200, 18],
    ['pcm_f32le;rate=44100;channels=1', 100, 1006],
  ])(
    'of %s in messages of %i ms, whose pulses are mostly in every other sample (seed %i): told as one channel',
    async (name, messageMs, seed) => {
      const format = parseAudioFormat(name);
      const arrivals = await arrivalsOf({ content: 'speech', format, messageMs, seed });
      expect(detect(arrivals)?.detection.format).toEqual(format);
    },
  );

  test('of Opus that pauses (DTX): told as Opus', () => {
    const messages = [Buffer.of(0x08), Buffer.of(0x08), Buffer.of(0x08, 1, 2), Buffer.of(0x08)];
    const arrivals = messages.map((message, i) => ({ message, atMs: [0, 20, 420, 820][i]! }));
    expect(detect(arrivals)?.detection.format).toEqual({ codec: 'opus' });
  });

  test('of more than is waited for, all at once: told by what came, and no more is held', () => {
    const message = sampleMessages(
      { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 },
      Float32Array.from({ length: 960 }, (_, i) => 0.3 * Math.sin(i * 0.0971)),
    )[0]!;
    const detector = new FormatDetector();
    let heldBytes = 0;
    while (!detector.push(message, heldBytes / 1e9)) heldBytes += message.length;
    expect(heldBytes).toBeGreaterThan(960_000);
    expect(heldBytes).toBeLessThan(1 << 20);
  });

  test('keeps every message for who plays them', () => {
    const detector = new FormatDetector();
    const messages = [Buffer.alloc(640, 1), Buffer.alloc(640, 2)];
    for (const { message, atMs } of everyMs(20, messages)) detector.push(message, atMs);
    expect(detector.arrivals).toEqual(everyMs(20, messages));
  });
});

test('streams that begin at the same moment are weighed one after another, and each in time', () => {
  const turns = new WeighingTurns();
  const random = seededRandom(4);
  const format: SampleFormat = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 };
  const sound = Float32Array.from({ length: 48_000 }, (_, i) => Math.sin(i / 30) * 0.3 * random());
  const messages = sampleMessages(format, sound);
  const detectors = Array.from({ length: 9 }, () => new FormatDetector(0, turns));
  const foundAtMs = new Map<FormatDetector, number>();
  for (const [i, message] of messages.entries()) {
    for (const detector of detectors) {
      if (foundAtMs.has(detector)) continue;
      const detection = detector.push(message, i * 20);
      if (!detection) continue;
      expect(detection.format).toEqual(format);
      foundAtMs.set(detector, i * 20);
    }
  }
  expect(foundAtMs.size).toBe(9);
  expect(new Set(foundAtMs.values()).size).toBe(9);
  expect(Math.max(...foundAtMs.values())).toBeLessThanOrEqual(500);
});
