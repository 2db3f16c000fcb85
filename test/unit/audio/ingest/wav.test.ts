import * as fc from 'fast-check';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { answerTo, type SampleFormat } from '../../../../src/audio/format.ts';
import { createIngest } from '../../../../src/audio/ingest/create-ingest.ts';
import { SampleIngest } from '../../../../src/audio/ingest/sample-ingest.ts';
import { WavReader } from '../../../../src/audio/ingest/wav-reader.ts';
import { upmix, writeSamples } from '../../../../src/audio/samples.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import {
  compareWithSpeech,
  cutInto,
  readFixture,
  SPEECH,
  SPEECH_RATE_HZ,
  WAV_HEAD_BYTES,
} from '../../../support/fixtures.ts';
import { hearStream, UNTIL_REFUSED } from '../../../support/hear-stream.ts';
import { decodeOpus, pcmTone } from '../../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

const WAV = readFixture('speech.wav');
const SAMPLES = WAV.subarray(WAV_HEAD_BYTES);

type Head = {
  tag?: number;
  channels?: number;
  rateHz?: number;
  sampleBytes?: number;
  dataBytes?: number;
  isExtended?: boolean;
  before?: Buffer;
};

/** The head of a file of samples. */
function wavHead(head: Head = {}): Buffer {
  const { tag = 1, channels = 1, rateHz = SPEECH_RATE_HZ, sampleBytes = 2 } = head;
  const { dataBytes = 0xffff_ffff, isExtended = false, before = Buffer.alloc(0) } = head;
  const format = Buffer.alloc(isExtended ? 40 : 16);
  format.writeUInt16LE(isExtended ? 0xfffe : tag, 0);
  format.writeUInt16LE(channels, 2);
  format.writeUInt32LE(rateHz, 4);
  format.writeUInt32LE((rateHz * channels * sampleBytes) >>> 0, 8);
  format.writeUInt16LE((channels * sampleBytes) & 0xffff, 12);
  format.writeUInt16LE(8 * sampleBytes, 14);
  if (isExtended) format.writeUInt16LE(tag, 24);
  const file = Buffer.from('RIFF\xff\xff\xff\xffWAVE', 'latin1');
  return Buffer.concat([file, chunk('fmt ', format), before, chunkHead('data', dataBytes)]);
}

function chunkHead(id: string, bytes: number): Buffer {
  const head = Buffer.alloc(8);
  head.write(id, 'latin1');
  head.writeUInt32LE(bytes >>> 0, 4);
  return head;
}
const chunk = (id: string, content: Buffer) =>
  Buffer.concat([chunkHead(id, content.length), content, Buffer.alloc(content.length % 2)]);

const hear = (messages: Buffer[], leastPackets: number) =>
  hearStream(codecs, 'wav', messages, leastPackets);

describe('WavReader.push() of files with an odd number of samples of one byte', () => {
  const fileOf = (rateHz: number, samples: number, isPadded: boolean) => {
    const head = wavHead({ rateHz, sampleBytes: 1, dataBytes: samples });
    return Buffer.concat([head, Buffer.alloc(samples + (isPadded ? samples % 2 : 0), 0x80)]);
  };

  test.each([
    { isPadded: true, bytes: 65_536 },
    { isPadded: true, bytes: 1 },
    { isPadded: false, bytes: 65_536 },
    { isPadded: false, bytes: 1 },
  ])('padded: $isPadded, in messages of $bytes bytes: all are read', ({ isPadded, bytes }) => {
    const rates: number[] = [];
    let samples = 0;
    const reader = new WavReader({
      onFormat: ({ rateHz }) => rates.push(rateHz),
      onSamples: (part) => (samples += part.length),
    });
    const list = chunk('LIST', Buffer.from('INFO'));
    const files = [fileOf(8000, 801, isPadded), fileOf(16_000, 1601, isPadded), list];
    const last = fileOf(8000, 800, isPadded);
    for (const message of cutInto(Buffer.concat([...files, last]), [bytes])) reader.push(message);
    expect(rates).toEqual([8000, 16_000, 8000]);
    expect(samples).toBe(801 + 1601 + 800);
  });
});

const unsupported: unknown = expect.objectContaining({ code: 'unsupported_audio' });

/** Packets of 2.5 s of the 2.6 s in the file. */
const MOST_OF_IT = 126;

/** Formats of files that are heard as the speech. */
async function heardInside(messages: Buffer[]): Promise<SampleFormat[]> {
  const { packets, faults, inside } = await hear(messages, MOST_OF_IT);
  expect(faults).toEqual([]);
  const { offDb, likeness } = compareWithSpeech(await decodeOpus(packets));
  expect(Math.abs(offDb)).toBeLessThan(3);
  expect(likeness).toBeGreaterThan(0.9);
  return inside;
}

describe('a WAVE stream', () => {
  test.each([
    ['messages of 20 ms', [640]],
    ['one byte, then anything', [1, 3, 7, 11, 500, 640, 2]],
    ['a message of 64 KB', [65_536]],
  ])('in %s is the speech that was recorded', async (_name, lengths) => {
    const inside = await heardInside(cutInto(WAV, lengths));
    expect(inside).toEqual([{ codec: 'pcm_s16le', rateHz: 16_000, channels: 1 }]);
  });

  test.each([
    ['pcm_u8', { tag: 1, sampleBytes: 1 }],
    ['pcm_s24le', { tag: 1, sampleBytes: 3 }],
    ['pcm_s32le', { tag: 1, sampleBytes: 4, isExtended: true }],
    ['pcm_f32le', { tag: 3, sampleBytes: 4 }],
    ['pcm_f64le', { tag: 3, sampleBytes: 8, isExtended: true }],
    ['pcma', { tag: 6, sampleBytes: 1 }],
    ['pcmu', { tag: 7, sampleBytes: 1 }],
  ] as const)('with %s inside is heard', async (codec, head) => {
    const stream = Buffer.concat([
      wavHead({ ...head, channels: 2, before: chunk('LIST', Buffer.from('INFOodd')) }),
      writeSamples(upmix(SPEECH, 2), codec),
    ]);
    const inside = await heardInside(cutInto(stream, [1001, 640, 3]));
    expect(inside).toEqual([{ codec, rateHz: 16_000, channels: 2 }]);
  });

  test('of a file for each message is one sound', async () => {
    const pieces = cutInto(SAMPLES, [3200]);
    const files = pieces.map((piece) =>
      Buffer.concat([wavHead({ dataBytes: piece.length }), piece]),
    );
    expect(await heardInside(files)).toHaveLength(1);
  });

  test('of files one after another, cut anywhere, is one sound', async () => {
    const files = cutInto(SAMPLES, [3200]).map((piece) =>
      Buffer.concat([wavHead({ dataBytes: piece.length }), piece, chunk('LIST', Buffer.alloc(8))]),
    );
    expect(await heardInside(cutInto(Buffer.concat(files), [999]))).toHaveLength(1);
  });

  test('with a data chunk for every sample costs no more than with one for all', async () => {
    const [first = Buffer.alloc(0), ...others] = cutInto(SAMPLES, [2]);
    const chunks = [first, ...others.map((sample) => chunk('data', sample))];
    const push = vi.spyOn(SampleIngest.prototype, 'push');
    const messages = cutInto(Buffer.concat([wavHead({ dataBytes: 2 }), ...chunks]), [16_384]);
    expect(await heardInside(messages)).toHaveLength(1);
    expect(push.mock.calls.length).toBeLessThanOrEqual(messages.length);
    push.mockRestore();
  });

  test.each([0, 36, 0x7fff_ffff, 0xffff_ffff])(
    'whose head says that there are %i bytes of samples goes on all the same',
    async (dataBytes) => {
      const stream = Buffer.concat([wavHead({ dataBytes }), SAMPLES]);
      expect(await heardInside(cutInto(stream, [640]))).toHaveLength(1);
    },
  );

  test('that goes on beyond its stated length with samples that look like the head of a chunk is heard whole', async () => {
    const head = wavHead({ rateHz: 8000, sampleBytes: 1, dataBytes: 8000 });
    const second = Buffer.alloc(8000, 0x7c);
    const others = Buffer.concat([Buffer.from('7c7a797a7b7c7a79', 'hex'), second.subarray(8)]);
    const { packets, faults } = await hear(
      [Buffer.concat([head, second]), ...cutInto(others, [160])],
      100,
    );
    expect(faults).toEqual([]);
    expect(packets).toHaveLength(100);
  });

  test('that changes its format is heard as what it is then', async () => {
    const half = SAMPLES.length / 2;
    const { faults, inside } = await hear(
      [WAV.subarray(0, half), Buffer.concat([wavHead({ rateHz: 48_000 }), SAMPLES.subarray(half)])],
      80,
    );
    expect(faults).toEqual([]);
    expect(inside.map(({ rateHz }) => rateHz)).toEqual([16_000, 48_000]);
  });

  test.each([
    ['of nothing of the kind', Buffer.from('this is no file at all')],
    ['without a format', Buffer.concat([WAV.subarray(0, 12), chunkHead('data', 100)])],
    ['of MP3', wavHead({ tag: 0x55 })],
    ['of ADPCM', wavHead({ tag: 0x11, sampleBytes: 1 })],
    ['of no channels', wavHead({ channels: 0 })],
    ['of 65535 channels', wavHead({ channels: 65_535 })],
    ['at 1 Hz', wavHead({ rateHz: 1 })],
    ['at 4 GHz', wavHead({ rateHz: 0xffff_ffff })],
    ['of samples of 9 bytes', wavHead({ sampleBytes: 9 })],
    [
      'whose format is cut short',
      Buffer.concat([WAV.subarray(0, 12), chunk('fmt ', Buffer.alloc(4))]),
    ],
  ])('%s is refused', async (_name, stream) => {
    const { faults, packets } = await hear([stream, Buffer.alloc(4000)], UNTIL_REFUSED);
    expect(faults).toEqual([unsupported]);
    expect(packets).toEqual([]);
  });

  test('that ends with a picture of 2 MB in a tag is heard to its end, and the picture is not', async () => {
    const tone = Buffer.concat(pcmTone(500, 0.25, 1000));
    const tag = chunk('id3 ', Buffer.alloc(2_000_000, 0x5a));
    const head = wavHead({ rateHz: 48_000, dataBytes: tone.length });
    head.writeUInt32LE(head.length + tone.length + tag.length - 8, 4);
    const messages = cutInto(Buffer.concat([head, tone, tag]), [9600]);
    const { packets, faults } = await hear(messages, 50);
    expect(faults).toEqual([]);
    expect(packets).toHaveLength(50);
  });

  test('with 4 GB of something else before its samples is refused', async () => {
    const head = Buffer.concat([WAV.subarray(0, 36), chunkHead('LIST', 0xffff_fff0)]);
    const { faults } = await hear(
      [head, ...Array.from({ length: 5 }, () => Buffer.alloc(65_536))],
      UNTIL_REFUSED,
    );
    expect(faults).toEqual([unsupported]);
  });

  test('that changes its format over and over is refused', async () => {
    const files = Array.from({ length: 30 }, (_, i) => wavHead({ rateHz: 8000 + i }));
    const { faults } = await hear(files, UNTIL_REFUSED);
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });
});

/** An ingest of WAVE, and the packets that come of it. */
async function openWav() {
  const packets: Buffer[] = [];
  const faults: unknown[] = [];
  const ingest = await createIngest(
    { codec: 'wav' },
    codecs,
    { sink: (packet) => packets.push(packet), sound: new SoundBudget() },
    { onFault: (fault) => faults.push(fault), onInside: () => {} },
  );
  return { ingest, packets, faults };
}

test('WavIngest.push() of clips of different rates before an ingest is open: all of them are heard', async () => {
  const { ingest, packets, faults } = await openWav();
  for (const rateHz of [8000, 16_000, 48_000]) {
    const clip = Buffer.alloc(2 * rateHz, 1);
    ingest.push(Buffer.concat([wavHead({ rateHz, dataBytes: clip.length }), clip]), 0);
  }
  await vi.waitFor(() => expect(packets).toHaveLength(150), { timeout: 10_000 });
  expect(faults).toEqual([]);
  ingest.close();
});

test('WavIngest.push() of 40 s at once, of a rate that the file states: 12 s are heard', async () => {
  const { ingest, packets, faults } = await openWav();
  const clip = Buffer.alloc(64_000, 1);
  const file = Buffer.concat([wavHead({ rateHz: 4000, dataBytes: clip.length }), clip]);
  for (let i = 0; i < 5; i += 1) ingest.push(file, 0);
  await vi.waitFor(() => expect(packets.length).toBeGreaterThan(590), { timeout: 10_000 });
  expect(packets.length).toBeLessThanOrEqual(600);
  expect(faults).toEqual([]);
  ingest.close();
});

test('WavIngest.skip() of a message that ends within a sample: not heard, and the samples go on where they were', async () => {
  const { ingest, packets, faults } = await openWav();
  const tone = Buffer.concat(pcmTone(1000, 0.5, 3000));
  const head = wavHead({ rateHz: 48_000 });
  const [first, second, ...others] = cutInto(tone, [96_001]);
  ingest.push(Buffer.concat([head, first!]), 0);
  await vi.waitFor(() => expect(packets).toHaveLength(50), { timeout: 10_000 });
  ingest.skip(second!, 1000);
  for (const message of others) ingest.push(message, 2000);
  expect(packets).toHaveLength(99);
  expect(faults).toEqual([]);
  const heard = await decodeOpus(packets);
  expect(heard.every((sample) => Math.abs(sample) < 0.6)).toBe(true);
  ingest.close();
});

test('answerTo(): what is inside, if that is sent to anybody', () => {
  const inside: SampleFormat = { codec: 'pcm_s24le', rateHz: 44_100, channels: 2 };
  expect(answerTo({ codec: 'wav', inside })).toEqual(inside);
  expect(answerTo({ codec: 'wav' })).toBeUndefined();
  expect(answerTo({ codec: 'wav', inside: { ...inside, rateHz: 96_000 } })).toBeUndefined();
  expect(answerTo({ codec: 'wav', inside: { ...inside, channels: 6 } })).toBeUndefined();
  expect(answerTo({ codec: 'wav', inside: { ...inside, codec: 'pcm_f64le' } })).toBeUndefined();
  expect(
    answerTo({ codec: 'wav', inside: { codec: 'pcmu', rateHz: 16_000, channels: 1 } }),
  ).toBeUndefined();
});

describe('WavReader of any bytes', () => {
  const read = (messages: Buffer[]) => {
    const formats: SampleFormat[] = [];
    const pieces: Buffer[] = [];
    const reader = new WavReader({
      onFormat: (format) => formats.push(format),
      onSamples: (bytes) => pieces.push(Buffer.from(bytes)),
    });
    let error: string | undefined;
    try {
      for (const message of messages) reader.push(message);
    } catch (fault) {
      error = String(fault);
    }
    return { formats, bytes: Buffer.concat(pieces), error, heldBytes: reader.heldBytes };
  };
  const parts = fc.array(
    fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
      fc.constantFrom(wavHead(), wavHead({ dataBytes: 10 }), wavHead({ isExtended: true })),
      fc
        .tuple(
          fc.constantFrom('fmt ', 'data', 'LIST', 'RIFF'),
          fc.integer({ min: 0, max: 2 ** 32 - 1 }),
        )
        .map(([id, bytes]) => chunkHead(id, bytes)),
    ),
    { maxLength: 8 },
  );

  test('push() gives the same wherever it is cut, holds little, and gives no more than came', () => {
    fc.assert(
      fc.property(
        parts,
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }),
        (some, cuts) => {
          const stream = Buffer.concat([wavHead(), ...some]);
          const whole = read([stream]);
          const cut = read(cutInto(stream, cuts));
          expect(cut.formats).toEqual(whole.formats);
          expect(cut.bytes.equals(whole.bytes)).toBe(true);
          expect(cut.error).toBe(whole.error);
          expect(whole.bytes.length).toBeLessThanOrEqual(stream.length);
          expect(Math.max(cut.heldBytes, whole.heldBytes)).toBeLessThanOrEqual(512);
        },
      ),
      { seed: 7, numRuns: 300 },
    );
  });
});
