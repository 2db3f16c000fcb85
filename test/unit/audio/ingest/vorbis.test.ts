import * as fc from 'fast-check';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { openDecoder } from '../../../../src/audio/decoding/frame-codecs.ts';
import { formatAudioFormat } from '../../../../src/audio/format.ts';
import { parseIdentification, parseSetup } from '../../../../src/audio/frames/vorbis-header.ts';
import { createIngest } from '../../../../src/audio/ingest/create-ingest.ts';
import { AudioInput } from '../../../../src/audio/ingest/input.ts';
import { VorbisReader } from '../../../../src/audio/ingest/vorbis-reader.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { compareWithSpeech, cutInto, readFixture } from '../../../support/fixtures.ts';
import { hearStream, UNTIL_REFUSED } from '../../../support/hear-stream.ts';
import { packetsOf, pagesOf } from '../../../support/ogg-pages.ts';
import { decodeOpus } from '../../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

const FILES = [
  'speech.ogg',
  'speech-8000.ogg',
  'speech-22050-stereo.ogg',
  'speech-48000.ogg',
  'speech-native.ogg',
];
/** Packets of 2.4 s of the 2.6 s in a file. */
const MOST_OF_IT = 120;
const unsupported: unknown = expect.objectContaining({ code: 'unsupported_audio' });

/** Reads a stream that comes in parts. */
function read(parts: readonly Buffer[]) {
  const frames: { bytes: string; durationMs: number }[] = [];
  const reader = new VorbisReader((frame, durationMs) =>
    frames.push({ bytes: frame.toString('latin1'), durationMs }),
  );
  let fault: string | undefined;
  let mostHeldBytes = 0;
  for (const part of parts) {
    try {
      if (fault === undefined) reader.push(part);
    } catch (thrown) {
      fault = String(thrown);
    }
    mostHeldBytes = Math.max(mostHeldBytes, reader.heldBytes);
  }
  return { frames, fault, mostHeldBytes, work: reader.work };
}

test.each(FILES)('%s: what each frame is said to last is what is decoded of it', async (name) => {
  const { frames } = read([readFixture(name)]);
  const [head, ...sound] = frames.map(({ bytes }) => Buffer.from(bytes, 'latin1'));
  const { rateHz } = parseIdentification(head!.subarray(0, 30));
  const decoder = await openDecoder('vorbis');
  await decoder.begin!(head!);
  const decoded: number[] = [];
  for (const packet of sound) {
    const { samples, faults } = await decoder.decode([packet]);
    expect(faults).toBe(0);
    decoded.push(samples.length);
  }
  decoder.close();
  const said = frames.slice(1).map(({ durationMs }) => Math.round((durationMs * rateHz) / 1000));
  // The first block has nothing to overlap with.
  expect(decoded).toEqual([0, ...said.slice(1)]);
});

describe('VorbisReader', () => {
  const streams = FILES.map((name) => readFixture(name).subarray(0, 9000));
  const cuts = fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 6 });
  const edits = fc.array(
    fc.record({ at: fc.nat(9000), content: fc.uint8Array({ minLength: 1, maxLength: 9 }) }),
    { maxLength: 4 },
  );
  const spoilt = fc.tuple(fc.constantFrom(...streams), edits).map(([stream, changes]) => {
    const whole = Buffer.from(stream);
    for (const { at, content } of changes) whole.set(content, at % (whole.length - 9));
    return whole;
  });
  const anyStream = fc
    .array(
      fc.oneof(
        spoilt,
        spoilt,
        fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
      ),
      {
        minLength: 1,
        maxLength: 3,
      },
    )
    .map((parts) => Buffer.concat(parts));

  test('the same is read, however it is cut, in work and memory that are in proportion', () => {
    fc.assert(
      fc.property(anyStream, cuts, (stream, lengths) => {
        const [whole, cut] = [read([stream]), read(cutInto(stream, lengths))];
        expect(cut.frames).toEqual(whole.frames);
        expect(cut.fault).toBe(whole.fault);
        expect(cut.work).toBeLessThanOrEqual(4 * stream.length + 1000);
        expect(cut.mostHeldBytes).toBeLessThanOrEqual(1 << 18);
        // A packet that is no head lasts, and none for longer than the longest block at the lowest
        // rate.
        for (const { bytes, durationMs } of cut.frames) {
          const isHead = bytes.startsWith('\x01vorbis');
          expect(durationMs > 0 && durationMs <= 1024).toBe(!isHead);
        }
      }),
      { seed: 20_261_124, numRuns: 200 },
    );
  });

  test('a stream that is cut short ends with its last whole page', () => {
    const stream = readFixture('speech-48000.ogg');
    const whole = read([stream]).frames;
    for (let length = 4000; length < stream.length; length += 1237) {
      const { frames, fault } = read([stream.subarray(0, length)]);
      expect(fault).toBeUndefined();
      expect(frames).toEqual(whole.slice(0, frames.length));
      expect(frames.length / whole.length).toBeGreaterThan((0.9 * (length - 4000)) / stream.length);
    }
  });
});

describe('setups', () => {
  const [, , setup] = packetsOf(readFixture('speech.ogg'));

  test('of every encoder here are read to their end, and nothing that is cut short is', () => {
    for (const name of FILES) {
      const [identification, , whole] = packetsOf(readFixture(name));
      const { channels } = parseIdentification(identification!);
      expect(parseSetup(whole!, channels).length).toBeGreaterThan(0);
      for (let bytes = 8; bytes < whole!.length - 1; bytes += 97) {
        expect(() => parseSetup(whole!.subarray(0, bytes), channels)).toThrow('cut short');
      }
    }
  });

  test.each([
    // The length of the first codebook: 24 bits behind its sync and its dimensions.
    ['a codebook of 16 million entries', (bytes: Buffer) => bytes.writeUIntLE(0xff_ffff, 13, 3)],
    ['a codebook of no entries', (bytes: Buffer) => bytes.writeUIntLE(0, 13, 3)],
    ['vectors of 65535 values', (bytes: Buffer) => bytes.writeUInt16LE(0xffff, 11)],
    ['no codebook at all', (bytes: Buffer) => bytes.fill(0, 8, 11)],
  ])('with %s are refused', async (_name, spoil) => {
    const [identification, comments, , ...sound] = packetsOf(readFixture('speech.ogg'));
    const hostile = Buffer.from(setup!);
    spoil(hostile);
    expect(() => parseSetup(hostile, 1)).toThrow(/too long|not valid/);
    const pages = pagesOf([identification!, comments!, hostile, ...sound]);
    const { packets, faults } = await hearStream(codecs, 'ogg_vorbis', pages, UNTIL_REFUSED);
    expect(packets).toEqual([]);
    expect(faults).toEqual([unsupported]);
  });

  test('that are read, whatever is in them, end nothing but their own stream', async () => {
    const [identification, comments, , ...sound] = packetsOf(readFixture('speech.ogg'));
    const flips = fc.array(fc.nat(8 * (setup!.length - 7) - 1), { minLength: 1, maxLength: 3 });
    let taken = 0;
    for (const bits of fc.sample(flips, { seed: 7, numRuns: 120 })) {
      const hostile = Buffer.from(setup!);
      for (const bit of bits) hostile[7 + (bit >> 3)]! ^= 1 << (bit & 7);
      try {
        parseSetup(hostile, 1);
      } catch {
        continue;
      }
      taken += 1;
      if (taken > 12) break;
      const pages = pagesOf([identification!, comments!, hostile, ...sound.slice(0, 40)]);
      await hearStream(codecs, 'ogg_vorbis', pages, 0);
    }
    expect(taken).toBeGreaterThan(6);
    const good = cutInto(readFixture('speech.ogg'), [1000]);
    const { packets } = await hearStream(codecs, 'ogg_vorbis', good, MOST_OF_IT);
    expect(packets.length).toBeGreaterThanOrEqual(MOST_OF_IT);
  });
});

describe('streams one behind the other', () => {
  test('of other rates and channels are all heard', async () => {
    const chained = Buffer.concat(FILES.map(readFixture));
    // All but the last packets: where one file ends is told by the length of all.
    const least = FILES.length * 129;
    const messages = cutInto(chained, [777]);
    const { packets, faults } = await hearStream(codecs, 'ogg_vorbis', messages, least);
    expect(faults).toEqual([]);
    expect(packets.length).toBeGreaterThanOrEqual(least);
    const sound = await decodeOpus(packets);
    for (let i = 0; i < FILES.length; i += 1) {
      const each = sound.length / FILES.length;
      const part = sound.subarray(Math.max(0, i * each - 5000), (i + 1) * each + 5000);
      expect(compareWithSpeech(part).likeness).toBeGreaterThan(0.5);
    }
  });

  test('a hundred heads at once are refused', async () => {
    const [identification, comments, setup] = packetsOf(readFixture('speech.ogg'));
    const heads = Buffer.concat(pagesOf([identification!, comments!, setup!]));
    const { faults } = await hearStream(
      codecs,
      'ogg_vorbis',
      Array<Buffer>(100).fill(heads),
      UNTIL_REFUSED,
    );
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });

  test('heads alone, for ever, are refused', async () => {
    const [identification, comments, setup] = packetsOf(readFixture('speech.ogg'));
    const heads = pagesOf([identification!, comments!, setup!, Buffer.alloc(60_000, 1)]);
    const faults: unknown[] = [];
    const ingest = await createIngest(
      { codec: 'ogg_vorbis' },
      codecs,
      { sink: () => {}, sound: new SoundBudget() },
      { onFault: (fault) => faults.push(fault), onInside: () => {} },
    );
    for (let i = 0; i < 20; i += 1) for (const page of heads) ingest.push(page, i * 1000);
    expect(faults).toEqual([unsupported]);
  });
});

test('a client that is muted while its stream begins is heard when it is not', async () => {
  const messages = cutInto(readFixture('speech-48000.ogg'), [150]);
  const packets: Buffer[] = [];
  const faults: unknown[] = [];
  const ingest = await createIngest(
    { codec: 'ogg_vorbis' },
    codecs,
    { sink: (packet) => packets.push(packet), sound: new SoundBudget() },
    { onFault: (fault) => faults.push(fault), onInside: () => {} },
  );
  for (const [i, message] of messages.entries()) {
    if (i < messages.length / 2) ingest.skip(message, i * 20);
    else ingest.push(message, i * 20);
  }
  await vi.waitFor(() => expect(packets.length).toBeGreaterThan(45), { timeout: 10_000 });
  expect(packets.length).toBeLessThan(80);
  expect(faults).toEqual([]);
  ingest.close();
});

/** An undeclared client that sends a message every 40 ms. */
function openClient() {
  const heard = {
    packets: [] as Buffer[],
    relayed: 0,
    detected: [] as string[],
    faults: [] as unknown[],
  };
  const input = new AudioInput(
    'auto',
    codecs,
    { sink: (packet) => heard.packets.push(packet), sound: new SoundBudget() },
    {
      onDetected: (format) => heard.detected.push(formatAudioFormat(format)),
      onOpaque: () => {
        heard.relayed += 1;
      },
      onMismatch: (observed) => heard.faults.push(observed),
      onFault: (fault) => heard.faults.push(fault),
    },
  );
  const send = async (messages: readonly Buffer[], fromMs = 0) => {
    for (const [i, message] of messages.entries()) {
      input.push(message, fromMs + i * 40);
      await new Promise(setImmediate);
    }
  };
  const isHeard = (packets: number) =>
    vi.waitFor(() => expect(heard.packets.length).toBeGreaterThan(packets), { timeout: 10_000 });
  return { input, heard, send, isHeard };
}

describe('undeclared', () => {
  test.each(FILES)('%s: found by its first page, and heard', async (name) => {
    const { input, heard, send, isHeard } = openClient();
    await send(cutInto(readFixture(name), [900]));
    await isHeard(MOST_OF_IT);
    expect(heard).toMatchObject({ detected: ['ogg_vorbis'], relayed: 0, faults: [] });
    const { offDb, likeness } = compareWithSpeech(await decodeOpus(heard.packets));
    expect(Math.abs(offDb)).toBeLessThan(3);
    expect(likeness).toBeGreaterThan(0.9);
    input.close();
  });

  test('joined in its middle: relayed, and not heard', async () => {
    const stream = readFixture('speech-48000.ogg');
    const { input, heard, send } = openClient();
    await send(cutInto(stream.subarray(stream.indexOf('OggS', 9000)), [400]));
    expect(heard).toMatchObject({ detected: ['opaque'], packets: [], faults: [] });
    expect(heard.relayed).toBeGreaterThan(20);
    input.close();
  });

  test('with a picture of 300 KiB among its comments: passed over, and the sound is heard', async () => {
    const [identification, , setup, ...sound] = packetsOf(readFixture('speech-48000.ogg'));
    const comments = Buffer.concat([Buffer.from('\x03vorbis'), Buffer.alloc(300 * 1024, 'pic')]);
    const pages = pagesOf([identification!, comments, setup!]);
    const { input, heard, send, isHeard } = openClient();
    const messages = cutInto(Buffer.concat(pages), [4096]);
    await send(messages);
    await send(
      cutInto(Buffer.concat(pagesOf([setup!, ...sound]).slice(1)), [400]),
      messages.length * 40,
    );
    await isHeard(MOST_OF_IT);
    expect(heard).toMatchObject({ detected: ['ogg_vorbis'], relayed: 0, faults: [] });
    input.close();
  });
});

test('declared, but joined in its middle: refused with a word of why', async () => {
  const stream = readFixture('speech-48000.ogg');
  const messages = cutInto(stream.subarray(stream.indexOf('OggS', 9000)), [400]);
  const { packets, faults } = await hearStream(codecs, 'ogg_vorbis', messages, UNTIL_REFUSED);
  expect(packets).toEqual([]);
  expect(faults).toEqual([unsupported]);
});
