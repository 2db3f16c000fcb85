import { describe, expect, test } from 'vitest';
import {
  FormatDetector,
  type Arrival,
  type Detection,
} from '../../src/audio/ingest/detection/detector.ts';
import { formatAudioFormat } from '../../src/audio/format.ts';
import {
  arrivalsOf,
  type CorpusCase,
  corpusCases,
  CONTENTS,
  FORMATS,
  nameOf,
} from '../support/corpus.ts';

function detect(arrivals: Arrival[]): { detection: Detection; afterMs: number } | undefined {
  const detector = new FormatDetector();
  for (const { message, atMs } of arrivals) {
    const detection = detector.push(message, atMs);
    if (detection) return { detection, afterMs: atMs - arrivals[0]!.atMs };
  }
  return undefined;
}

const everyMs = (ms: number, messages: Buffer[]): Arrival[] =>
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

describe('FormatDetector.push()', () => {
  test('of a container: told by its first four bytes, also cut in two', () => {
    expect(detect(everyMs(20, [Buffer.from('OggS\0')]))?.detection.format).toEqual({
      codec: 'ogg_opus',
    });
    const cut = [Buffer.of(0x1a, 0x45), Buffer.of(0xdf, 0xa3, 0x9f)];
    expect(detect(everyMs(20, cut))?.detection.format).toEqual({ codec: 'webm_opus' });
  });

  test.each([
    ['pcmu', 0xff, 160],
    ['pcma', 0xd5, 160],
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

  test('of Opus that pauses (DTX): told as Opus', () => {
    const messages = [Buffer.of(0x08), Buffer.of(0x08), Buffer.of(0x08, 1, 2), Buffer.of(0x08)];
    const arrivals = messages.map((message, i) => ({ message, atMs: [0, 20, 420, 820][i]! }));
    expect(detect(arrivals)?.detection.format).toEqual({ codec: 'opus' });
  });

  test('keeps every message for who plays them', () => {
    const detector = new FormatDetector();
    const messages = [Buffer.alloc(640, 1), Buffer.alloc(640, 2)];
    for (const { message, atMs } of everyMs(20, messages)) detector.push(message, atMs);
    expect(detector.arrivals).toEqual(everyMs(20, messages));
  });
});
