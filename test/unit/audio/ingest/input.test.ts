import { setImmediate as turn } from 'node:timers/promises';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import {
  type DeclaredFormat,
  formatAudioFormat,
  parseAudioFormat,
  parseDeclaredFormat,
  type SampleFormat,
} from '../../../../src/audio/format.ts';
import { OpaqueGuard } from '../../../../src/audio/ingest/detection/opaque-guard.ts';
import { AudioInput } from '../../../../src/audio/ingest/input.ts';
import { frameBytesOf, openSampleWriter } from '../../../../src/audio/samples.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { oggOpus, webmOpus } from '../../../support/containers.ts';
import { arrivalsOf } from '../../../support/corpus.ts';
import {
  compareWithSpeech,
  cutInto,
  readFixture,
  SPEECH,
  WAV_HEAD_BYTES,
} from '../../../support/fixtures.ts';
import { findGlitches } from '../../../support/glitches.ts';
import { imaAdpcm } from '../../../support/ima-adpcm.ts';
import { seededRandom } from '../../../support/random.ts';
import {
  amplitudeOf,
  decodeOpus,
  opusTone,
  pcmTone,
  peakHz,
  sampleTone,
  toDb,
} from '../../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Input of a client, and what comes of it. */
function openInput(declared: DeclaredFormat) {
  const packets: Buffer[] = [];
  const opaque: Buffer[] = [];
  const detected: string[] = [];
  const faults: unknown[] = [];
  const input = new AudioInput(
    declared,
    codecs,
    { sink: (packet) => packets.push(packet), sound: new SoundBudget() },
    {
      onDetected: (format) => detected.push(formatAudioFormat(format)),
      onOpaque: (message) => opaque.push(message),
      onMismatch: (observed) => faults.push(observed),
      onFault: (fault) => faults.push(fault),
    },
  );
  return { input, packets, opaque, detected, faults };
}

/** Waits for what opens asynchronously, however busy the machine is. */
const until = (isSo: () => boolean) =>
  vi.waitFor(() => expect(isSo()).toBe(true), { timeout: 10_000, interval: 5 });

test('one message and then a pause: in doubt for two seconds, and what comes later is found out by itself', async () => {
  const { input, packets, detected, faults } = openInput('auto');
  const tone = await opusTone(500, 0.25, 1000);
  expect(input.isFormatUnknown(() => 0)).toBe(false);
  input.push(tone[0]!, 0);
  expect(input.isFormatUnknown(() => 1900)).toBe(true);
  expect(input.isFormatUnknown(() => 2100)).toBe(false);
  for (const [i, packet] of tone.entries()) input.push(packet, 60_000 + i * 20);
  await until(() => packets.length === tone.length);
  expect(detected).toEqual(['opus']);
  expect(packets).toEqual(tone);
  expect(faults).toEqual([]);
  input.close();
});

test('undeclared files without sound that can be decoded, handed on at once: every message is relayed', async () => {
  const file = Buffer.concat(webmOpus(await opusTone(500, 0.25, 1000), 20));
  // A codec of which nothing is known.
  file.write('A_NONE', file.indexOf('A_OPUS'), 'latin1');
  const messages = cutInto(file, [500]);
  const { input, opaque, faults } = openInput('auto');
  for (const [i, message] of messages.entries()) input.push(message, i / 100);
  await until(() => opaque.length === messages.length);
  expect(opaque).toEqual(messages);
  expect(faults).toEqual([]);
  input.close();
});

test('a file without sound of 2000 messages that turns out unreadable: every message is relayed, and the guard learns from the last 64', async () => {
  const learn = vi.spyOn(OpaqueGuard.prototype, 'learn');
  const file = Buffer.concat(webmOpus(await opusTone(500, 0.25, 1000), 20));
  file.write('A_NONE', file.indexOf('A_OPUS'), 'latin1');
  // An element that means nothing, of 512 KiB, before the tracks.
  const tracksAt = file.indexOf(Buffer.from([0x16, 0x54, 0xae, 0x6b]));
  const nothing = Buffer.concat([Buffer.from([0xec, 0x18, 0, 0]), Buffer.alloc(2 ** 19)]);
  const parts = [file.subarray(0, tracksAt), nothing, file.subarray(tracksAt)];
  const messages = cutInto(Buffer.concat(parts), [260]);
  expect(messages.length).toBeGreaterThan(2000);
  const { input, opaque, faults } = openInput('auto');
  for (const [i, message] of messages.entries()) {
    input.push(message, i * 20);
    if (i % 5 === 0) await new Promise(setImmediate);
  }
  await until(() => opaque.length === messages.length);
  expect(opaque).toEqual(messages);
  expect(learn).toHaveBeenCalledTimes(64);
  expect(faults).toEqual([]);
  learn.mockRestore();
  input.close();
});

describe('undeclared pieces of two seconds, 2001 ms apart', () => {
  const PIECE_MS = 2001;

  test('push() of 100 Opus packets at once, five times: all of them are heard', async () => {
    const { input, packets, detected } = openInput('auto');
    const tone = await opusTone(500, 0.25, 10_000);
    for (const [i, packet] of tone.entries()) {
      if (i % 100 === 0) await until(() => !input.format || packets.length === i);
      input.push(packet, Math.floor(i / 100) * PIECE_MS);
    }
    await until(() => packets.length === tone.length);
    expect(detected).toEqual(['opus']);
    expect(packets).toEqual(tone);
    input.close();
  });

  test('push() of one message of 64,000 bytes of samples, five times: all of them are heard', async () => {
    const { input, packets, detected } = openInput('auto');
    const format = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 } as const;
    const sound = { content: 'speech', format, messageMs: 2000, seed: 1 } as const;
    const messages = (await arrivalsOf(sound, 10_000)).map(({ message }) => message);
    expect(messages.map(({ length }) => length)).toEqual(Array(5).fill(64_000));
    for (const [i, message] of messages.entries()) {
      input.push(message, i * PIECE_MS);
      await until(() => !input.format || packets.length > 100 * i + 90);
    }
    await until(() => packets.length === 500);
    expect(detected).toEqual([formatAudioFormat(format)]);
    input.close();
  });
});

test.each(['pcm_s16le;rate=48000;channels=1', 'auto'])(
  'skip() of messages that cut samples in two (%s): what is pushed after them is read rightly',
  async (declared) => {
    const { input, packets, faults } = openInput(parseDeclaredFormat(declared));
    const bytes = Buffer.concat(pcmTone(1000, 0.5, 2000));
    const messageBytes = 1921;
    for (let at = 0, n = 0; at < bytes.length; at += messageBytes, n += 1) {
      const message = bytes.subarray(at, at + messageBytes);
      if (n < 25) input.skip(message, n * 20);
      else input.push(message, n * 20);
      if (n !== 24) continue;
      await until(() => input.format !== undefined);
      await turn();
      expect(packets).toEqual([]);
    }
    expect(faults).toEqual([]);
    const heard = (await decodeOpus(packets)).subarray(-48_000);
    expect(peakHz(heard)).toBe(1000);
    expect(Math.abs(toDb(amplitudeOf(heard, 1000) / 0.5))).toBeLessThan(0.5);
    input.close();
  },
);

test('skip() of messages of a container: it is read on, because it can only be read from its beginning', async () => {
  const { input, packets, faults } = openInput('auto');
  const tone = await opusTone(500, 0.25, 1000);
  const [start, ...pages] = oggOpus(tone, 20);
  input.skip(start!, 0);
  for (const [i, page] of pages.entries()) input.push(page, i * 20);
  await until(() => packets.length === tone.length);
  expect(input.format).toEqual({ codec: 'ogg_opus' });
  expect(faults).toEqual([]);
  input.close();
});

test.each([8000, 11_025, 12_000, 16_000, 22_050, 24_000, 44_100, 48_000])(
  'zeros of 16-bit samples at %i Hz, with 20 ms of jitter: taken for that within a second, and the first sound is heard',
  async (rateHz) => {
    const format = { codec: 'pcm_s16le', rateHz, channels: 1 } as const;
    const tone = sampleTone(format, 1000, 0.5, 1000);
    const messageBytes = tone[0]!.length;
    for (let seed = 1; seed <= 40; seed += 1) {
      const random = seededRandom(seed);
      const { input, detected } = openInput('auto');
      let atMs = 0;
      for (let i = 0; i * 20 < 1000; i += 1) {
        atMs = Math.max(atMs, i * 20 + 20 * random());
        input.push(Buffer.alloc(messageBytes), atMs);
      }
      expect({ seed, detected: detected.at(-1) }).toEqual({
        seed,
        detected: formatAudioFormat(format),
      });
      expect(input.isFormatUnknown(() => atMs)).toBe(false);
      input.close();
    }
    const { input, packets } = openInput('auto');
    for (let i = 0; i < 100; i += 1) input.push(Buffer.alloc(messageBytes), i * 20);
    for (const [i, message] of tone.entries()) input.push(message, 2000 + i * 20);
    await until(() => packets.length > 45);
    const heard = await decodeOpus(packets);
    expect(heard.length / 48).toBeGreaterThan(900);
    expect(peakHz(heard.subarray(-24_000))).toBe(1000);
    input.close();
  },
);

test.each([8000, 11_025, 12_000, 16_000, 22_050, 24_000, 44_100, 48_000])(
  'zeros of two channels of 16 bits at %i Hz, with 20 ms of jitter: the first sound decides, and is heard',
  async (rateHz) => {
    const format = { codec: 'pcm_s16le', rateHz, channels: 2 } as const;
    const tone = sampleTone(format, 1000, 0.5, 1600);
    const random = seededRandom(rateHz);
    const { input, packets } = openInput('auto');
    let atMs = 0;
    for (let i = 0; i < 50; i += 1) {
      atMs = Math.max(atMs, i * 20 + 20 * random());
      input.push(Buffer.alloc(tone[0]!.length), atMs);
    }
    // After a second the client hears the room, unless the zeros may be floats of a usual rate: it
    // might hear noise then.
    expect(input.isFormatUnknown(() => atMs)).toBe([16_000, 44_100, 48_000].includes(rateHz));
    for (let i = 50; i < 100; i += 1) input.push(Buffer.alloc(tone[0]!.length), i * 20);
    for (const [i, message] of tone.entries()) input.push(message, 2000 + i * 20);
    await until(() => packets.length > 70);
    expect(input.format).toEqual(format);
    const heard = await decodeOpus(packets);
    expect(heard.length / 48).toBeGreaterThan(1400);
    expect(peakHz(heard.subarray(-24_000))).toBe(1000);
    input.close();
  },
);

describe('messages that cut samples in two', () => {
  const FORMATS: SampleFormat[] = [
    { codec: 'pcm_s16le', rateHz: 12_000, channels: 2 },
    { codec: 'pcm_f32le', rateHz: 24_000, channels: 1 },
    { codec: 'pcm_f32le', rateHz: 48_000, channels: 1 },
  ];

  /** Sends `bytes` at their pace, in messages of about 20 ms and odd length. */
  async function sendOddly(input: AudioInput, format: SampleFormat, bytes: Buffer) {
    const bytesPerMs = (frameBytesOf(format) * format.rateHz) / 1000;
    const messageBytes = Math.round(bytesPerMs * 20) | 1;
    for (let at = 0; at + messageBytes <= bytes.length; at += messageBytes) {
      input.push(bytes.subarray(at, at + messageBytes), at / bytesPerMs);
      await new Promise(setImmediate);
    }
  }

  test.each(FORMATS)(
    'of speech in %j, looked at again every 10 s: still what it is',
    async (format) => {
      const name = formatAudioFormat(format);
      const sound: Buffer[] = [];
      for (let seed = 1; seed <= 40; seed += 1) {
        const arrivals = await arrivalsOf({ content: 'speech', format, messageMs: 20, seed });
        sound.push(...arrivals.map(({ message }) => message));
      }
      for (const declared of ['auto', format] as const) {
        const { input, detected, faults } = openInput(declared);
        await sendOddly(input, format, Buffer.concat(sound));
        expect(detected).toEqual(declared === 'auto' ? [name] : []);
        expect(faults).toEqual([]);
        input.close();
      }
    },
  );

  test.each(FORMATS)(
    'of a tone in %j, after digital silence: heard, and not as noise',
    async (format) => {
      const { input, packets, faults } = openInput('auto');
      const silence = Buffer.alloc((1200 * frameBytesOf(format) * format.rateHz) / 1000);
      const tone = Buffer.concat(sampleTone(format, 1000, 0.5, 1600));
      await sendOddly(input, format, Buffer.concat([silence, tone]));
      await until(() => packets.length > 70);
      expect(faults).toEqual([]);
      expect(input.format).toEqual(format);
      const heard = await decodeOpus(packets);
      expect(heard.length / 48).toBeGreaterThan(1400);
      expect(Math.max(...heard.map(Math.abs))).toBeLessThan(0.6);
      expect(findGlitches(heard.subarray(9600))).toEqual([]);
    },
  );
});

describe('a declared format that the bytes contradict', () => {
  const FORMATS = [
    'opus',
    'pcmu',
    'pcma',
    'pcm_s16le;rate=8000;channels=1',
    'pcm_s16le;rate=48000;channels=1',
    'pcm_s16le;rate=44100;channels=2',
    'pcm_f32le;rate=16000;channels=1',
    'pcm_f32le;rate=48000;channels=2',
  ];
  const pairs = FORMATS.filter((declared) => declared !== 'opus').flatMap((declared) =>
    FORMATS.filter((sent) => sent !== declared).map((sent) => [declared, sent] as const),
  );

  test.each(pairs)('declared %s, sent %s: told once what it is', async (declared, sent) => {
    const format = parseAudioFormat(sent);
    const messages: Buffer[] = [];
    for (let seed = 1; seed <= 4; seed += 1) {
      const arrivals = await arrivalsOf({ content: 'speech', format, messageMs: 20, seed });
      messages.push(...arrivals.map(({ message }) => message));
    }
    const { input, faults } = openInput(parseDeclaredFormat(declared));
    for (const [i, message] of messages.entries()) {
      input.push(message, i * 20);
      await new Promise(setImmediate);
    }
    expect(faults).toEqual([{ format, confidence: expect.any(Number) as number }]);
    input.close();
  });

  test.each(FORMATS)('declared %s, and sent: nothing is told', async (name) => {
    const format = parseAudioFormat(name);
    const { input, faults } = openInput(format);
    for (const { message, atMs } of await arrivalsOf(
      { content: 'speech', format, messageMs: 20, seed: 1 },
      3000,
    )) {
      input.push(message, atMs);
      await new Promise(setImmediate);
    }
    expect(faults).toEqual([]);
    input.close();
  });
});

describe('bytes of no known format', () => {
  const randomMessages = (bytes: number, count: number) => {
    const random = seededRandom(bytes);
    return Array.from({ length: count }, () =>
      Buffer.from(Array.from({ length: bytes }, () => Math.floor(random() * 256))),
    );
  };

  test.each([80, 333, 640, 4000])(
    'in messages of %i bytes, undeclared: handed on in order as they came, and nothing is decoded',
    async (bytes) => {
      const { input, packets, detected, faults, opaque } = openInput('auto');
      const messages = randomMessages(bytes, 100);
      for (const [i, message] of messages.entries()) input.push(message, i * 20);
      await until(() => opaque.length === messages.length);
      expect(detected).toEqual(['opaque']);
      expect(opaque).toEqual(messages);
      expect([...packets, ...faults]).toEqual([]);
      input.close();
    },
  );

  test('declared opaque: every message is handed on from the first on, whatever it is', async () => {
    const { input, packets, detected, opaque } = openInput(parseDeclaredFormat('opaque'));
    const messages = [...(await opusTone(500, 0.25, 100)), ...randomMessages(7, 5)];
    for (const message of messages) input.push(message, 0);
    await until(() => opaque.length === messages.length);
    expect(opaque).toEqual(messages);
    expect([...packets, ...detected]).toEqual([]);
    input.close();
  });

  test('of an odd number, then speech in 16-bit samples: read from the beginning of a message on', async () => {
    const { input, detected } = openInput('auto');
    const format = parseAudioFormat('pcm_s16le;rate=16000;channels=1');
    const sound = { content: 'speech', format, messageMs: 20, seed: 1 } as const;
    const speech = (await arrivalsOf(sound, 6000)).map(({ message }) => message);
    for (const [i, message] of [...randomMessages(333, 101), ...speech].entries()) {
      input.push(message, i * 20);
      await new Promise(setImmediate);
    }
    expect(detected).toEqual(['opaque', formatAudioFormat(format)]);
    input.close();
  });
});

describe('a change in the middle of an undeclared stream', () => {
  const CHANGES = [
    ['pcm_s16le;rate=16000;channels=1', 'opus'],
    ['opus', 'pcm_s16le;rate=48000;channels=1'],
    ['pcmu', 'pcma'],
    ['pcm_s16le;rate=16000;channels=1', 'pcm_s16le;rate=48000;channels=1'],
  ] as const;

  test.each(CHANGES)('%s, then %s: found out, and all of it is heard', async (first, second) => {
    const { input, packets, detected, faults } = openInput('auto');
    let atMs = 0;
    let packetsBefore = 0;
    for (const name of [first, second]) {
      packetsBefore = packets.length;
      const format = parseAudioFormat(name);
      const sound = { content: 'speech', format, messageMs: 20, seed: 1 } as const;
      for (const { message } of await arrivalsOf(sound, 1600)) {
        input.push(message, atMs);
        atMs += 20;
        await new Promise(setImmediate);
      }
      // 1.6 s, less what one message in the wrong format and the last frame may cost.
      await until(() => packets.length - packetsBefore >= 75);
    }
    expect(detected).toEqual([first, second]);
    expect(faults).toEqual([]);
    input.close();
  });

  test('audio that was taken for another format by mistake is heard, and the samples go on where they were', async () => {
    const { input, packets, detected } = openInput('auto');
    const tone = pcmTone(1000, 0.5, 2000);
    for (const [i, message] of tone.slice(0, 50).entries()) input.push(message, i * 20);
    await until(() => packets.length > 45);
    // Twice as long, and each ends in the middle of a sample.
    const rest = Buffer.concat(tone.slice(50));
    for (const [i, message] of cutInto(rest, [3841]).entries()) {
      input.push(message, 1000 + i * 40);
    }
    await until(() => packets.length > 97);
    expect(detected).toEqual(['pcm_s16le;rate=48000;channels=1']);
    const heard = await decodeOpus(packets);
    expect(heard.length / 48).toBeGreaterThan(1950);
    expect(findGlitches(heard.subarray(9600, 90_000))).toEqual([]);
    input.close();
  });

  test('a pause while a message is doubted: the samples go on where they were', async () => {
    const { input, packets, detected, faults } = openInput('auto');
    const tone = pcmTone(1000, 0.5, 3000);
    for (const [i, message] of tone.slice(0, 50).entries()) input.push(message, i * 20);
    await until(() => packets.length > 45);
    // The doubted message is too late to be heard after the pause; it ends in the middle of a
    // sample.
    const [doubted, ...others] = cutInto(Buffer.concat(tone.slice(50)), [3841]);
    input.push(doubted!, 1000);
    for (const [i, message] of others.entries()) input.push(message, 4000 + i * 40);
    await until(() => packets.length > 140);
    expect(detected).toEqual(['pcm_s16le;rate=48000;channels=1']);
    expect(faults).toEqual([]);
    const heard = await decodeOpus(packets);
    expect(heard.every((sample) => Math.abs(sample) < 0.6)).toBe(true);
    expect(peakHz(heard.subarray(-48_000))).toBe(1000);
    input.close();
  });
});

test.each(['pcm_s16be', 'pcm_u8', 'pcm_s24le', 'pcm_s32le'] as const)(
  'speech in %s, undeclared: found out, and heard as it was recorded',
  async (codec) => {
    const { input, packets, detected } = openInput('auto');
    // All bits are in use, as of a microphone of 24 bits.
    const random = seededRandom(18);
    const sound = SPEECH.map((sample) => sample + (random() - 0.5) * 1e-3);
    const bytes = openSampleWriter(codec)(sound);
    for (const [i, message] of cutInto(bytes, [(bytes.length / SPEECH.length) * 320]).entries()) {
      input.push(message, i * 20);
      await new Promise(setImmediate);
    }
    await until(() => packets.length > 125);
    expect(detected).toEqual([`${codec};rate=16000;channels=1`]);
    const { offDb, likeness } = compareWithSpeech(await decodeOpus(packets));
    expect(Math.abs(offDb)).toBeLessThan(3);
    expect(likeness).toBeGreaterThan(0.9);
    input.close();
  },
);

describe('files that hold nothing that is decoded', () => {
  const wavHead = Buffer.from(readFixture('speech.wav').subarray(0, WAV_HEAD_BYTES));
  wavHead.writeUInt16LE(0x11, 20);
  const spelt = (from: string, to: string, bytes: Buffer) =>
    Buffer.from(bytes.toString('latin1').replaceAll(from, to), 'latin1');
  const packets = Array.from({ length: 20 }, (_, i) => Buffer.alloc(60, i));
  const FILES = {
    wav: Buffer.concat([wavHead, imaAdpcm(SPEECH)]),
    webm_opus: spelt('A_OPUS', 'A_AC3X', Buffer.concat(webmOpus(packets, 20))),
    mp4_aac: spelt('mp4a', 'ac-3', readFixture('speech.mp4')),
  };

  test.each(Object.entries(FILES))(
    '%s, undeclared: unknown, and every message is handed on as it came',
    async (_name, file) => {
      const { input, packets: heard, detected, opaque, faults } = openInput('auto');
      const messages = cutInto(file, [700]);
      for (const [i, message] of messages.entries()) {
        input.push(message, i * 20);
        await new Promise(setImmediate);
      }
      await until(() => opaque.length === messages.length);
      expect(detected.at(-1)).toBe('opaque');
      expect(opaque).toEqual(messages);
      expect([...heard, ...faults]).toEqual([]);
      input.close();
    },
  );

  test.each(Object.entries(FILES))('%s, declared: refused', async (name, file) => {
    const { input, faults, opaque } = openInput(parseDeclaredFormat(name));
    for (const message of cutInto(file, [700])) input.push(message, 0);
    await until(() => faults.length > 0);
    expect(faults).toEqual([expect.objectContaining({ code: 'unsupported_audio' })]);
    expect(opaque).toEqual([]);
    input.close();
  });

  test('begun time after time on one connection: refused', async () => {
    const { input, packets: heard, faults } = openInput('auto');
    const good = Buffer.concat(oggOpus(await opusTone(500, 0.5, 200), 20));
    for (let i = 0; i < 40 && faults.length === 0; i += 1) {
      const before = heard.length;
      input.push(good, i * 10);
      await until(() => heard.length > before);
      input.push(Buffer.alloc(300, 1), i * 10 + 5);
    }
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
  });
});
