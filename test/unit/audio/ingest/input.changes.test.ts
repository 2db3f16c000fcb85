import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import {
  type DeclaredFormat,
  parseAudioFormat,
  parseDeclaredFormat,
} from '../../../../src/audio/format.ts';
import { oggOpus, opusHead, webmOpus } from '../../../support/containers.ts';
import { arrivalsOf } from '../../../support/corpus.ts';
import { audibleMs } from '../../../support/first-sound.ts';
import { cutInto, readFixture, WAV_HEAD_BYTES } from '../../../support/fixtures.ts';
import { packetsOf, pagesOf } from '../../../support/ogg-pages.ts';
import { seededRandom } from '../../../support/random.ts';
import { decodeOpus, opusTone } from '../../../support/sound.ts';
import { openTimedClient } from '../../../support/timed-client.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

const openClient = (declared?: DeclaredFormat) => openTimedClient(codecs, declared);

async function speechAs(name: string, messageMs: number, durationMs: number, seed = 1) {
  const sound = { content: 'speech', format: parseAudioFormat(name), messageMs, seed } as const;
  return (await arrivalsOf(sound, durationMs)).map(({ message }) => message);
}

function randomMessages(bytes: number, count: number): Buffer[] {
  const random = seededRandom(bytes);
  return Array.from({ length: count }, () =>
    Buffer.from(Array.from({ length: bytes }, () => Math.floor(random() * 256))),
  );
}

const CUT_MS = 40;
const FRAME_SAMPLES = 960;
/** Duration of the windows by whose level something is heard. */
const WINDOW_MS = 5;
/** Cuts a recording of 2.6 s into messages of 40 ms. */
function recording(name: string): Buffer[] {
  const file = readFixture(name);
  const bytes = Math.ceil((file.length * CUT_MS) / 2600);
  return Array.from({ length: Math.ceil(file.length / bytes) }, (_, i) =>
    file.subarray(i * bytes, (i + 1) * bytes),
  );
}

/** A WAVE file whose length is not known in advance, as recorders write it. */
function endlessWav(): Buffer[] {
  const [first, ...others] = recording('speech.wav');
  const head = Buffer.from(first!);
  head.writeUInt32LE(0xffff_ffff, 40);
  return [head, ...others];
}

describe('audio that follows a file on the same connection', () => {
  /** With the numbers of packets that come of each, and of the first half of its messages. */
  const FILES: [string, number, number, () => Buffer[] | Promise<Buffer[]>][] = [
    ['wav', 130, 63, endlessWav],
    ['wav', 130, 63, () => recording('speech.wav')],
    ['mp3', 132, 64, () => recording('speech.mp3')],
    ['aac_adts', 131, 66, () => recording('speech.aac')],
    ['mp4_aac', 131, 63, () => recording('speech.mp4')],
    ['flac', 130, 64, () => recording('speech.flac')],
    ['ogg_flac', 130, 51, () => recording('speech.oga')],
    ['ogg_vorbis', 130, 50, () => recording('speech.ogg')],
    ['ogg_opus', 50, 25, async () => oggOpus(await opusTone(500, 0.5, 1000), 20)],
    ['webm_opus', 50, 25, async () => webmOpus(await opusTone(500, 0.5, 1000), 20)],
  ];
  const NEXT: [string, () => Buffer[] | Promise<Buffer[]>][] = [
    ['opus', () => speechAs('opus', CUT_MS, 1200)],
    [
      'pcm_s16le;rate=48000;channels=1',
      () => speechAs('pcm_s16le;rate=48000;channels=1', CUT_MS, 1200),
    ],
    ['mp3', () => recording('speech.mp3')],
    ['wav', () => recording('speech.wav')],
    ['ogg_vorbis', () => recording('speech.ogg')],
    ['ogg_flac', () => recording('speech.oga')],
  ];
  /** A file of samples may be sent at any pace, and its head has told the rate. */
  const isTold = (file: string, next: string) =>
    next !== file && !(file === 'wav' && next.startsWith('pcm_s16le'));
  const pairs = FILES.flatMap(([file, count, , makeFile]) =>
    NEXT.filter(([next]) => isTold(file, next)).map(([next, makeNext]) => ({
      file,
      next,
      count,
      makeFile,
      makeNext,
    })),
  );

  test.each(pairs)('$file, then $next: found out within a second', async (pair) => {
    const { file, next, count, makeFile, makeNext } = pair;
    const { input, detected, faults, send, isHeard, now } = openClient();
    await send(await makeFile(), CUT_MS);
    await isHeard(count);
    const changedAtMs = now();
    await send(await makeNext(), CUT_MS);
    expect(faults).toEqual([]);
    // A WAVE file tells twice: that it is one, and what is in it.
    const isNew = ({ format }: { format: string }, i: number) => format !== detected[i - 1]?.format;
    const told = detected.filter(isNew);
    expect(told.map(({ format }) => format)).toEqual([file, next]);
    expect(told[1]!.atMs - changedAtMs).toBeLessThan(1000);
    input.close();
  });

  /** With the part of it that is sent, and the number of packets that come of that. */
  const parts = FILES.flatMap(([file, whole, half, makeFile]) => [
    { file, part: 1, packets: whole, makeFile },
    { file, part: 0.5, packets: half, makeFile },
  ]);

  test.each(parts)(
    '$file, $part of it ($packets packets), then random bytes: less than 100 ms of them are heard',
    async ({ file, part, packets: count, makeFile }) => {
      const { input, packets, relayed, detected, send, isHeard } = openClient();
      const messages = await makeFile();
      await send(messages.slice(0, messages.length * part), CUT_MS);
      await isHeard(count);
      // More than 128 KiB: all of them are judged when some are relayed.
      await send(randomMessages(640, 230), CUT_MS);
      await vi.waitFor(() => expect(relayed).not.toEqual([]), 10_000);
      expect(detected[0]!.format).toBe(file);
      const rest = (await decodeOpus(packets)).subarray(count * FRAME_SAMPLES);
      expect(audibleMs(rest, WINDOW_MS)).toBeLessThan(100);
      input.close();
    },
  );
});

describe('a recording that begins behind bytes of an unknown format on the same connection', () => {
  const RECORDINGS: [string, number, () => Buffer[] | Promise<Buffer[]>][] = [
    ['mp4_aac', 131, () => recording('speech.mp4')],
    ['flac', 130, () => recording('speech.flac')],
    ['ogg_flac', 130, () => recording('speech.oga')],
    ['ogg_vorbis', 130, () => recording('speech.ogg')],
    ['ogg_opus', 50, async () => oggOpus(await opusTone(500, 0.5, 1000), 20)],
    ['webm_opus', 50, async () => webmOpus(await opusTone(500, 0.5, 1000), 20)],
  ];

  test.each(RECORDINGS)(
    '%s (%i packets): detected at once, and heard',
    async (codec, count, make) => {
      const { input, relayed, detected, faults, send, isHeard } = openClient();
      const before = randomMessages(640, 30);
      await send(before, CUT_MS);
      await vi.waitFor(() => expect(relayed).toEqual(before), 10_000);
      await send(await make(), CUT_MS);
      await isHeard(count);
      expect(detected.map(({ format }) => format)).toEqual(['opaque', codec]);
      expect(detected[1]!.atMs).toBe(30 * CUT_MS);
      expect(relayed).toEqual(before);
      expect(faults).toEqual([]);
      input.close();
    },
  );

  test('each message a file without decodable sound: all are relayed, and read as files three times at first', async () => {
    const { input, packets, relayed, detected, faults, send } = openClient();
    const video = webmOpus([], 20, { codec: 'V_VP8' }).concat(randomMessages(600, 1));
    const messages = Array<Buffer>(200).fill(Buffer.concat(video));
    await send(messages, 20);
    await vi.waitFor(() => expect(relayed).toEqual(messages), 10_000);
    expect(detected.filter(({ format }) => format !== 'opaque')).toHaveLength(1 + 3);
    expect(packets).toEqual([]);
    expect(faults).toEqual([]);
    input.close();
  });

  test.each([
    ['a1b2c3d466747970', 'ftyp behind a size of gigabytes'],
    ['1a45dfa3c0ffee42', 'an ID of EBML that no document type follows'],
  ])('%s (%s): a message of random bytes that begins so is relayed', async (head) => {
    const { input, relayed, detected, send } = openClient();
    const messages = randomMessages(640, 60);
    messages[40] = Buffer.concat([Buffer.from(head, 'hex'), messages[40]!]);
    await send(messages, CUT_MS);
    await vi.waitFor(() => expect(relayed).toEqual(messages), 10_000);
    expect(detected.map(({ format }) => format)).toEqual(['opaque']);
    input.close();
  });
});

test('files of different formats, each in one message: all of them are heard', async () => {
  const { input, packets, detected, faults, send } = openClient();
  const names = ['mp3', 'wav', 'mp3', 'flac', 'mp3', 'mp4', 'aac', 'mp3'];
  for (const [i, name] of names.entries()) {
    await send([readFixture(`speech.${name}`)], 2600);
    // The last frame of a file may not come out.
    await vi.waitFor(() => expect(packets.length).toBeGreaterThanOrEqual(126 * (i + 1)), 10_000);
  }
  const told = detected.map(({ format }) => format);
  const isNew = (format: string, i: number) => format !== told[i - 1];
  expect(told.filter(isNew)).toEqual([
    'mp3',
    'wav',
    'mp3',
    'flac',
    'mp3',
    'mp4_aac',
    'aac_adts',
    'mp3',
  ]);
  expect(faults).toEqual([]);
  input.close();
});

test('a WAVE file that breaks off in a message that was doubted: what was held with it is heard', async () => {
  const { input, packets, detected, faults, send } = openClient();
  const samples = cutInto(readFixture('speech.wav').subarray(WAV_HEAD_BYTES), [1280]);
  const before = samples.slice(0, 20);
  const [noise] = randomMessages(1000, 1);
  // The samples end in the noise; a format follows that is too short.
  const head = Buffer.from(readFixture('speech.wav').subarray(0, WAV_HEAD_BYTES));
  head.writeUInt32LE(20 * 1280 + 500, WAV_HEAD_BYTES - 4);
  noise!.write('fmt \x04\0\0\0', 500, 'latin1');
  await send([Buffer.concat([head, before[0]!]), ...before.slice(1)], CUT_MS);
  await vi.waitFor(() => expect(packets.length).toBeGreaterThan(35), { timeout: 10_000 });
  await send([noise!, ...samples.slice(20)], CUT_MS);
  await vi.waitFor(() => expect(packets.length).toBeGreaterThan(2 * samples.length - 2), {
    timeout: 10_000,
  });
  expect(detected.at(-1)!.format).toBe('pcm_s16le;rate=16000;channels=1');
  expect(faults).toEqual([]);
  input.close();
});

describe('a file with a picture of 300 KiB', () => {
  const PICTURE_BYTES = 300 * 1024;
  const picture = (seed: number) =>
    Buffer.concat(randomMessages(PICTURE_BYTES + seed, 1)).subarray(0, PICTURE_BYTES);

  /** An ID3 tag (ID3v2 §3.1) whose length has 7 bits a byte. */
  function mp3WithTag(): Buffer[] {
    const length = [21, 14, 7, 0].map((shift) => (PICTURE_BYTES >> shift) & 0x7f);
    return [Buffer.of(...Buffer.from('ID3'), 3, 0, 0, ...length), picture(1)];
  }

  /** `fLaC` and STREAMINFO of the file, and a PICTURE (RFC 9639 §8.8), which is the last block. */
  function flacHead(file: Buffer): Buffer[] {
    const head = Buffer.from(file.subarray(0, 42));
    head[4]! &= 0x7f;
    const pictureHead = Buffer.of(0x86, 0, 0, 0);
    pictureHead.writeUIntBE(PICTURE_BYTES, 1, 3);
    return [head, pictureHead, picture(2)];
  }

  const mp3 = readFixture('speech.mp3');
  const flac = readFixture('speech.flac');
  const firstFrame = flac.indexOf(Buffer.of(0xff, 0xf8), 42);

  /** Pages of a stream with the picture in one of the packets before the sound. */
  function oggWith(before: Buffer[], sound: readonly Buffer[]): { head: Buffer; sound: Buffer } {
    const stream = Buffer.concat(pagesOf([...before, ...sound]));
    const headBytes = Buffer.concat(pagesOf(before)).length;
    return { head: stream.subarray(0, headBytes), sound: stream.subarray(headBytes) };
  }

  const STREAMS = {
    mp3: () => ({ head: Buffer.concat(mp3WithTag()), sound: mp3 }),
    flac: () => ({ head: Buffer.concat(flacHead(flac)), sound: flac.subarray(firstFrame) }),
    ogg_flac: () => {
      // The last block of metadata (RFC 9639 §10.1) is the picture instead of seek points.
      const [info, comments, , ...frames] = packetsOf(readFixture('speech.oga'));
      const block = Buffer.concat(flacHead(flac).slice(1));
      return oggWith([info!, comments!, block], frames);
    },
    ogg_opus: async () => {
      const tags = Buffer.concat([Buffer.from('OpusTags'), picture(3)]);
      return oggWith([opusHead(), tags], await opusTone(500, 0.5, 2600));
    },
  };

  test.each(
    (Object.keys(STREAMS) as (keyof typeof STREAMS)[]).flatMap((format) => [
      { format, declared: 'auto' },
      { format, declared: format },
    ]),
  )('$format, declared as $declared: passed over, and the sound is heard', async (stream) => {
    const { format, declared } = stream;
    const { head, sound } = await STREAMS[format]();
    const { input, packets, detected, faults, send } = openClient(parseDeclaredFormat(declared));
    await send(cutInto(head, [4096]), CUT_MS);
    expect(packets).toEqual([]);
    await send(cutInto(sound, [Math.ceil((sound.length * CUT_MS) / 2600)]), CUT_MS);
    await vi.waitFor(() => expect(packets.length).toBeGreaterThan(120), { timeout: 10_000 });
    expect(new Set(detected.map((told) => told.format))).toEqual(
      new Set(declared === 'auto' ? [format] : []),
    );
    expect(faults).toEqual([]);
    input.close();
  });

  test.each([4096, 61])(
    'MP3 that ends in a tag of ID3v1, then MP3 with the picture, in messages of %i bytes: both are heard',
    async (bytes) => {
      const tag = Buffer.concat([Buffer.from('TAGtitle'), Buffer.alloc(120)]);
      const { input, packets, detected, faults, send } = openClient();
      await send(recording('speech.mp3'), CUT_MS);
      await vi.waitFor(() => expect(packets.length).toBeGreaterThan(120), { timeout: 10_000 });
      const messages = cutInto(Buffer.concat([tag, ...mp3WithTag()]), [bytes]);
      await send(messages, (CUT_MS * bytes) / 4096);
      await send(recording('speech.mp3'), CUT_MS);
      await vi.waitFor(() => expect(packets.length).toBeGreaterThan(240), { timeout: 10_000 });
      expect(detected.map(({ format }) => format)).toEqual(['mp3']);
      expect(faults).toEqual([]);
      input.close();
    },
  );
});

describe('a change of rate that leaves the length of messages as it was', () => {
  const CHANGES = [
    ['pcm_s16le;rate=16000;channels=1', 20, 'pcm_s16le;rate=8000;channels=1', 40],
    ['pcm_s16le;rate=8000;channels=1', 40, 'pcm_s16le;rate=16000;channels=1', 20],
    ['pcm_s16le;rate=48000;channels=1', 20, 'pcm_s16le;rate=24000;channels=1', 40],
    ['pcm_s16le;rate=48000;channels=1', 20, 'pcm_s16le;rate=16000;channels=1', 60],
    ['pcm_s16le;rate=24000;channels=1', 20, 'pcm_s16le;rate=48000;channels=1', 10],
    ['pcm_f32le;rate=48000;channels=1', 20, 'pcm_f32le;rate=16000;channels=1', 60],
    ['pcm_f32le;rate=24000;channels=1', 40, 'pcm_f32le;rate=48000;channels=1', 20],
  ] as const;

  test.each(CHANGES)(
    '%s in %i ms, then %s in %i ms: found out within a second',
    async (first, firstMs, second, secondMs) => {
      for (let seed = 1; seed <= 3; seed += 1) {
        const { input, detected, faults, send, now } = openClient();
        // The regular look at the stream is not due for 10 s.
        await send(await speechAs(first, firstMs, 4000, seed), firstMs);
        const changedAtMs = now();
        await send(await speechAs(second, secondMs, 2000, seed), secondMs);
        expect(detected.map(({ format }) => format)).toEqual([first, second]);
        expect(detected[1]!.atMs - changedAtMs).toBeLessThan(1000);
        expect(faults).toEqual([]);
        input.close();
      }
    },
  );
});

test('twenty files of other kinds on one connection: one decoder is open at a time', async () => {
  const own = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
  const { input, detected, faults, send } = openTimedClient(own);
  const kinds = ['speech.flac', 'speech.ogg', 'speech.mp4', 'speech.oga'];
  for (let file = 0; file < 20; file += 1) {
    await send(recording(kinds[file % kinds.length]!).slice(0, 30), CUT_MS);
    await vi.waitFor(() => expect(own.frames.size).toBe(1));
  }
  expect([detected.length, faults]).toEqual([20, []]);
  input.close();
  expect(own.frames.size).toBe(0);
});
