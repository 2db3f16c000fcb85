import * as fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { counters } from '../../../../src/counters.ts';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { CompressedFormat } from '../../../../src/audio/format.ts';
import { DECODED_FORMATS } from '../../../../src/audio/ingest/decoded-formats.ts';
import { FlacReader } from '../../../../src/audio/ingest/flac-reader.ts';
import { compareWithSpeech, cutInto, readFixture } from '../../../support/fixtures.ts';
import { flacChecksum, flacFrame, withChecksum } from '../../../support/flac-frames.ts';
import { mp4Of, mp4WithPositions, type SampleRun } from '../../../support/mp4.ts';
import { hearStream, UNTIL_REFUSED } from '../../../support/hear-stream.ts';
import { seededRandom } from '../../../support/random.ts';
import { decodeOpus } from '../../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

type Codec = CompressedFormat['codec'];
const STREAMS: [string, Codec][] = [
  ['speech.mp3', 'mp3'],
  ['speech-id3.mp3', 'mp3'],
  ['speech.flac', 'flac'],
  ['speech.oga', 'ogg_flac'],
  ['speech.ogg', 'ogg_vorbis'],
  ['speech-8000.ogg', 'ogg_vorbis'],
  ['speech-22050-stereo.ogg', 'ogg_vorbis'],
  ['speech-48000.ogg', 'ogg_vorbis'],
  ['speech-native.ogg', 'ogg_vorbis'],
  ['speech.aac', 'aac_adts'],
  ['speech.mp4', 'mp4_aac'],
];
/** Packets of the 2.6 s, but for the last frame, which may not come out. */
const MOST_OF_IT = 126;
/** Formats whose frames can be read wherever a stream is joined. */
const JOINABLE = STREAMS.filter(
  ([, codec]) => codec !== 'ogg_flac' && codec !== 'ogg_vorbis' && codec !== 'mp4_aac',
);

const unsupported: unknown = expect.objectContaining({ code: 'unsupported_audio' });

const randomLengths = (seed: number) => {
  const random = seededRandom(seed);
  return Array.from({ length: 50 }, () => 1 + Math.floor(random() ** 3 * 2000));
};

describe.each(STREAMS)('%s as %s', (name, codec) => {
  const stream = readFixture(name);

  test.each([
    ['messages of 100 ms', [Math.ceil(stream.length / 26)]],
    ['messages of 10 ms', [Math.ceil(stream.length / 260)]],
    ['one message', [65_536]],
    ['messages cut anywhere', randomLengths(1)],
    ['messages cut elsewhere', randomLengths(2)],
  ])('in %s is the speech that was recorded', async (_name, lengths) => {
    const { packets, faults } = await hearStream(
      codecs,
      codec,
      cutInto(stream, lengths),
      MOST_OF_IT,
    );
    expect(faults).toEqual([]);
    const { offDb, likeness } = compareWithSpeech(await decodeOpus(packets));
    expect(Math.abs(offDb)).toBeLessThan(3);
    expect(likeness).toBeGreaterThan(0.9);
  });

  test('twice, one behind the other, is heard twice', async () => {
    const messages = cutInto(Buffer.concat([stream, stream]), [1000]);
    const { packets, faults } = await hearStream(codecs, codec, messages, 2 * MOST_OF_IT);
    expect(faults).toEqual([]);
    expect(packets.length).toBeGreaterThanOrEqual(2 * MOST_OF_IT);
  });
});

test('MP4 with the positions of its fragments in the file, twice, one behind the other, is heard twice', async () => {
  const file = mp4WithPositions();
  const messages = cutInto(Buffer.concat([file, file]), [1000]);
  const { packets, faults } = await hearStream(codecs, 'mp4_aac', messages, 2 * MOST_OF_IT);
  expect(faults).toEqual([]);
  expect(packets.length).toBeGreaterThanOrEqual(2 * MOST_OF_IT);
});

describe.each(JOINABLE)('%s', (name, codec) => {
  const stream = readFixture(name);

  test('joined in its middle is heard from there on', async () => {
    const messages = cutInto(stream.subarray(Math.floor(stream.length / 2)), [700]);
    const { packets, faults } = await hearStream(codecs, codec, messages, 40);
    expect(faults).toEqual([]);
    expect(packets.length).toBeGreaterThanOrEqual(40);
  });

  test('with bytes lost in its middle goes on after them', async () => {
    const at = Math.floor(stream.length / 2);
    const spoilt = Buffer.concat([stream.subarray(0, at), stream.subarray(at + 333)]);
    const { packets, faults } = await hearStream(codecs, codec, cutInto(spoilt, [700]), 90);
    expect(faults).toEqual([]);
    expect(packets.length).toBeGreaterThanOrEqual(90);
  });
});

describe('hostile streams', () => {
  test.each(STREAMS)(
    '%s with bytes changed everywhere ends nothing but itself',
    async (name, codec) => {
      const random = seededRandom(3);
      const spoilt = Buffer.from(readFixture(name));
      for (let i = 0; i < 200; i += 1) {
        spoilt[Math.floor(random() * spoilt.length)] = Math.floor(random() * 256);
      }
      await hearStream(codecs, codec, cutInto(spoilt, [1000]), 0);
      const good = cutInto(readFixture(name), [1000]);
      const { packets } = await hearStream(codecs, codec, good, MOST_OF_IT);
      expect(packets.length).toBeGreaterThanOrEqual(MOST_OF_IT);
    },
  );

  test.each(['mp3', 'flac', 'ogg_flac', 'ogg_vorbis', 'aac_adts', 'mp4_aac'] as const)(
    '%s of a million bytes that are something else is refused',
    async (codec) => {
      const random = seededRandom(4);
      const noise = Buffer.from(Array.from({ length: 60_000 }, () => Math.floor(random() * 256)));
      const messages = Array.from({ length: 20 }, () => noise);
      const { packets, faults } = await hearStream(codecs, codec, messages, UNTIL_REFUSED);
      expect(packets).toEqual([]);
      expect(faults).toEqual([unsupported]);
    },
  );

  test('a tag of 256 MB is refused', async () => {
    const tag = Buffer.concat([Buffer.from('49443303000007ffffff', 'hex'), Buffer.alloc(60_000)]);
    const messages = [tag, ...Array.from({ length: 20 }, () => Buffer.alloc(60_000))];
    const { faults } = await hearStream(codecs, 'mp3', messages, UNTIL_REFUSED);
    expect(faults).toEqual([unsupported]);
  });

  test('FLAC whose frames claim 65536 samples is refused', async () => {
    // Block size in 16 bits, 48 kHz, mono, 16 bits a sample; the checksum is right.
    const head = Buffer.from('fff87a080000ffff', 'hex');
    head.writeUInt16BE(0xffff, 5);
    const whole = withChecksum(head.subarray(0, 7));
    const { faults } = await hearStream(
      codecs,
      'flac',
      [
        Buffer.concat([
          Buffer.from('fLaC80000000', 'latin1').subarray(0, 4),
          Buffer.from('80000000', 'hex'),
        ]),
        Buffer.concat([whole, Buffer.alloc(100)]),
      ],
      UNTIL_REFUSED,
    );
    expect(faults).toEqual([unsupported]);
  });

  test('FLAC whose frames state 1 Hz is refused', async () => {
    const message = Buffer.concat([
      flacFrame(0, 192, 96_000),
      flacFrame(1, 1, 1),
      flacFrame(2, 1, 1),
    ]);
    const { packets, faults } = await hearStream(codecs, 'flac', [message], UNTIL_REFUSED);
    expect(packets).toEqual([]);
    expect(faults).toEqual([unsupported]);
  });

  test('FLAC of 60 ms, and behind it in one message 120 ms at a lower rate: no more sound than that', async () => {
    const high = Array.from({ length: 30 }, (_, i) => flacFrame(i, 192, 96_000));
    const low = Array.from({ length: 5 }, (_, i) => flacFrame(30 + i, 192, 8000));
    const { packets, faults } = await hearStream(
      codecs,
      'flac',
      [Buffer.concat([...high, ...low])],
      5,
    );
    expect(faults).toEqual([]);
    expect(packets.length).toBeGreaterThanOrEqual(5);
    expect(packets.length).toBeLessThanOrEqual(9);
  });

  test('FLAC that changes its rate over and over is refused', async () => {
    const messages = Array.from({ length: 30 }, (_, i) =>
      Buffer.concat([flacFrame(i, 1600, 8000 + i), flacFrame(i, 1600, 8000 + i)]),
    );
    const { faults } = await hearStream(codecs, 'flac', messages, UNTIL_REFUSED);
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });

  test('minutes of sound in a message: what is beyond 12 s is dropped, and the stream is refused when it has gone on for 5 s', async () => {
    // The shortest frames of MPEG-2 at 8 kbit/s last 24 ms each and have 24 bytes.
    const frame = Buffer.alloc(24);
    frame.writeUInt32BE(0xff_f3_14_c4);
    const droppedBefore = counters.dropped.too_fast;
    const { faults } = await hearStream(codecs, 'mp3', [Buffer.alloc(60_000, frame)], 600);
    expect(faults).toEqual([]);
    expect(counters.dropped.too_fast - droppedBefore).toBe(2500 - 500);
    // A message each 10 ms.
    const message = Buffer.alloc(2400, frame);
    const forMs = async (ms: number, leastPackets: number) =>
      (await hearStream(codecs, 'mp3', Array<Buffer>(ms / 10).fill(message), leastPackets)).faults;
    expect(await forMs(5000, 0)).toEqual([]);
    expect(await forMs(5200, UNTIL_REFUSED)).toEqual([
      expect.objectContaining({ code: 'audio_rate_exceeded' }),
    ]);
  });

  test.each(Object.entries(DECODED_FORMATS))(
    '%s: readers hold little of any bytes, give the same wherever those are cut, and their work is in proportion',
    (_codec, { openReader }) => {
      const streams = STREAMS.map(([name]) => readFixture(name).subarray(0, 3000));
      const run = fc.record<SampleRun>({
        count: fc.oneof(fc.nat(8), fc.integer({ min: 0, max: 0xffff_ffff })),
        sampleBytes: fc.oneof(fc.nat(4), fc.nat(0xffff_ffff)),
        isListed: fc.boolean(),
      });
      const fragments = fc.array(run, { maxLength: 6 }).map((runs) => mp4Of(runs, 50));
      const pieces = fc.array(
        fc.oneof(
          fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
          fc.constantFrom(...streams),
          fragments,
        ),
        { maxLength: 5 },
      );
      const read = (messages: Buffer[]) => {
        const frames: string[] = [];
        const reader = openReader((frame) => frames.push(frame.toString('latin1')));
        let most = 0;
        let error: unknown = new Error('none');
        try {
          for (const message of messages) {
            reader.push(message);
            most = Math.max(most, reader.heldBytes);
          }
        } catch (fault) {
          error = fault;
        }
        expect(error).toBeInstanceOf(Error);
        expect(reader.work).toBeLessThanOrEqual(
          WORK_A_BYTE * Buffer.concat(messages).length + WORK_A_MESSAGE * messages.length,
        );
        return { frames, most };
      };
      fc.assert(
        fc.property(
          pieces,
          fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1 }),
          (some, cuts) => {
            const stream = Buffer.concat(some);
            const whole = read([stream]);
            const cut = read(cutInto(stream, cuts));
            expect(cut.most).toBeLessThan(1 << 19);
            // FLAC's last frame is known to be whole by the end of a message.
            const count = Math.min(cut.frames.length, whole.frames.length);
            expect(Math.abs(cut.frames.length - whole.frames.length)).toBeLessThanOrEqual(1);
            expect(cut.frames.slice(0, count)).toEqual(whole.frames.slice(0, count));
          },
        ),
        { seed: 5, numRuns: 100 },
      );
    },
  );
});

/** Bounds of the work of a reader (bytes that it copies and looks at), for each byte and each message that comes. */
const WORK_A_BYTE = 8;
const WORK_A_MESSAGE = 20;

test('FlacReader.push() of a frame that is cut where its checksum is right by chance: the frame is read whole', () => {
  const SAMPLES = 192;
  /** Frame of verbatim samples at 16 kHz; one of them equals the checksum of the bytes before it. */
  const frameOf = (number: number, samples: number) => {
    // The number of samples takes 8 bits; mono, 16 bits a sample.
    const head = withChecksum(Buffer.of(0xff, 0xf8, 0x65, 0x08, number, samples - 1));
    const sound = Buffer.from(Array.from({ length: 2 * samples }, (_, i) => (i * 37) & 0x7f));
    const bytes = Buffer.concat([head, Buffer.of(2), sound, Buffer.alloc(2)]);
    const cutAt = head.length + 1 + samples;
    bytes.writeUInt16BE(flacChecksum(bytes.subarray(0, cutAt - 2)), cutAt - 2);
    bytes.writeUInt16BE(flacChecksum(bytes.subarray(0, -2)), bytes.length - 2);
    return { bytes, cutAt };
  };
  const framesOf = (messages: readonly Buffer[]) => {
    const frames: string[] = [];
    const reader = new FlacReader((frame) => frames.push(frame.toString('hex')));
    for (const message of messages) reader.push(message);
    return frames;
  };
  const [first, second, third, last] = [
    frameOf(0, SAMPLES),
    frameOf(1, SAMPLES),
    frameOf(2, SAMPLES),
    frameOf(3, SAMPLES / 2),
  ] as const;
  const all = [first, second, third, last].map(({ bytes }) => bytes);
  const whole = framesOf(all);
  expect(whole).toEqual(all.map((bytes) => bytes.toString('hex')));
  expect(framesOf([Buffer.concat(all)])).toEqual(whole);
  const cut = [
    first.bytes.subarray(0, 100),
    Buffer.concat([first.bytes.subarray(100), second.bytes.subarray(0, second.cutAt)]),
    Buffer.concat([second.bytes.subarray(second.cutAt), third.bytes, last.bytes.subarray(0, 50)]),
    last.bytes.subarray(50),
  ];
  expect(framesOf(cut)).toEqual(whole);
});

test.each([0xff, 0x66])(
  'FlacReader.push() of frames with %i near their end, one a message: each is read with its message',
  (byte) => {
    let frames = 0;
    const reader = new FlacReader(() => {
      frames += 1;
    });
    const readAfterEach = Array.from({ length: 16 }, (_, i) => {
      // Mono, 192 verbatim samples of 16 bits at 16 kHz.
      const head = withChecksum(Buffer.of(0xff, 0xf8, 0x65, 0x08, i, 191));
      const sound = Buffer.alloc(2 * 192, 7);
      sound[sound.length - 1 - i] = byte;
      const bytes = Buffer.concat([head, Buffer.of(2), sound]);
      const checksum = Buffer.alloc(2);
      checksum.writeUInt16BE(flacChecksum(bytes));
      reader.push(Buffer.concat([bytes, checksum]));
      return frames;
    });
    expect(readAfterEach).toEqual(Array.from({ length: 16 }, (_, i) => i + 1));
  },
);

test('FlacReader.push() of a frame of 240 KB, the end of it in messages of one byte: no more work for each', () => {
  const speech = readFixture('speech.flac');
  const reader = DECODED_FORMATS.flac.openReader(() => {});
  reader.push(speech.subarray(0, 9000));
  for (let part = 0; part < 4; part += 1) reader.push(Buffer.alloc(60_000, 7));
  const before = reader.work;
  for (let sent = 0; sent < 5000; sent += 1) reader.push(Buffer.of(7));
  // The held bytes may be moved once more.
  expect(reader.work - before).toBeLessThan(2 * 260_000);
});

test('Mp4Reader.push() of a run that announces four thousand million samples alike: those that come', () => {
  const frames: Buffer[] = [];
  const reader = DECODED_FORMATS.mp4_aac.openReader((frame) => frames.push(frame));
  reader.push(mp4Of([{ count: 0xffff_ffff, sampleBytes: 2, isListed: false }], 100));
  expect(frames).toHaveLength(50);
});

test('Mp4Reader.push() of 4000 runs that announce 16,384 samples each, in 64 KB: work in proportion to the bytes', () => {
  const reader = DECODED_FORMATS.mp4_aac.openReader(() => {});
  const file = mp4Of(
    Array.from({ length: 4000 }, () => ({ count: 16_384, sampleBytes: 0, isListed: false })),
    100,
  );
  reader.push(file);
  expect(reader.work).toBeLessThanOrEqual(WORK_A_BYTE * file.length);
});
