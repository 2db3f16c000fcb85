import { Application } from 'libopus-wasm';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import {
  type AudioFormat,
  parseAudioFormat,
  type SampleFormat,
} from '../../../../src/audio/format.ts';
import { createIngest } from '../../../../src/audio/ingest/create-ingest.ts';
import { DECODED_FORMATS } from '../../../../src/audio/ingest/decoded-formats.ts';
import type { OpusTarget } from '../../../../src/audio/ingest/ingest.ts';
import type { LastPackets } from '../../../../src/audio/ingest/splice.ts';
import { counters } from '../../../../src/counters.ts';
import { audioLevelOf } from '../../../../src/audio/level.ts';
import { openSampleWriter, upmix } from '../../../../src/audio/samples.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { readFixture } from '../../../support/fixtures.ts';
import { findGlitches } from '../../../support/glitches.ts';
import { spokenTrack } from '../../../support/speech.ts';
import {
  amplitudeOf,
  decodeOpus,
  encodeOpus,
  opusTone,
  pcmTone,
  peakHz,
  sampleMessages,
  toDb,
  tone as toneAt,
} from '../../../support/sound.ts';

const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

async function openIngest(format: AudioFormat, before?: LastPackets) {
  const packets: { packet: Buffer; durationSamples: number; audioLevel: number }[] = [];
  const ingest = await createIngest(
    format,
    codecs,
    {
      sound: new SoundBudget(),
      sink: (packet, durationSamples, audioLevel) =>
        packets.push({ packet, durationSamples, audioLevel }),
    },
    {
      onFault: (fault) => {
        throw fault;
      },
      onInside: () => {},
    },
    before,
  );
  return { ingest, packets };
}

/** Three words with pauses between them, as a client sends them whose encoder knows only CELT. */
async function celtSpeech() {
  const { sound, words } = await spokenTrack({ words: 3, pauseMs: 700 });
  const options = { application: Application.RestrictedLowDelay, bitrate: 64_000 };
  return { messages: await encodeOpus(sound, 20, options), words };
}

describe('Opus in', () => {
  const open = () => openIngest({ codec: 'opus' });

  test('push() hands packets on untouched, with their duration and about their level', async () => {
    const { ingest, packets } = await open();
    const tone = await opusTone(1000, 0.5, 400);
    for (const packet of tone) ingest.push(packet, 0);
    expect(packets.map(({ packet }) => packet)).toEqual(tone);
    expect(packets.every(({ durationSamples }) => durationSamples === 960)).toBe(true);
    expect(packets.at(-1)?.audioLevel).toBeGreaterThanOrEqual(6);
    expect(packets.at(-1)?.audioLevel).toBeLessThanOrEqual(12);
    ingest.close();
  });

  test('a word after a pause, in CELT: its level is measured from its first packets on', async () => {
    const { ingest, packets } = await open();
    const { messages, words } = await celtSpeech();
    for (const packet of messages) ingest.push(packet, 0);
    const decoded = await decodeOpus(messages);
    for (const { fromSample } of words) {
      const first = Math.floor(fromSample / 960);
      for (let i = first; i < first + 4; i += 1) {
        const level = audioLevelOf(decoded.subarray(i * 960, (i + 1) * 960));
        expect(Math.abs(packets[i]!.audioLevel - level)).toBeLessThanOrEqual(3);
      }
    }
    ingest.close();
  });

  test('push() hands a packet with 64 KB of padding on without it', async () => {
    const { ingest, packets } = await open();
    const [, packet] = await opusTone(1000, 0.5, 40);
    // Code 3 of one frame, with 257 times 254 bytes of padding.
    const head = Buffer.of(packet![0]! | 3, 0x41, ...Array<number>(257).fill(255), 0);
    ingest.push(Buffer.concat([head, packet!.subarray(1), Buffer.alloc(257 * 254)]), 0);
    const bare = Buffer.concat([Buffer.of(packet![0]! | 3, 1), packet!.subarray(1)]);
    expect(packets.map(({ packet: handedOn }) => handedOn)).toEqual([bare]);
    ingest.close();
  });

  test('push() says 127 for discontinuous transmission', async () => {
    const { ingest, packets } = await open();
    ingest.push(Buffer.from([0xf8, 0xff, 0xfe]), 0);
    expect(packets[0]?.audioLevel).toBe(127);
    ingest.close();
  });

  test('push() refuses a stream that does not begin with Opus', async () => {
    const { ingest, packets } = await open();
    expect(() => ingest.push(Buffer.from([0xff, 0x00]), 0)).toThrow(
      expect.objectContaining({ code: 'unsupported_audio' }),
    );
    expect(packets).toEqual([]);
    ingest.close();
  });

  test.each([
    ['3200 packets of 2.5 ms, after a stall of 8 s: all are handed on', '1022', 0x80, 3200, 3200],
    ['1000 packets of 120 ms at once: those of 12 s are handed on', '10221022', 0x19, 1000, 100],
  ])('push() of %s', async (_name, hex, toc, count, handedOn) => {
    const { ingest, packets } = await open();
    const packet = Buffer.concat([Buffer.of(toc), Buffer.from(hex, 'hex')]);
    const before = counters.dropped.too_fast;
    for (let i = 0; i < count; i += 1) ingest.push(packet, 0);
    expect(packets).toHaveLength(handedOn);
    expect(counters.dropped.too_fast - before).toBe(count - handedOn);
    ingest.close();
  });

  test('push() drops single malformed packets of a good stream, and refuses the fifth in a row', async () => {
    const { ingest, packets } = await open();
    const [good] = await opusTone(1000, 0.5, 20);
    const malformed = Buffer.from([0xff, 0x00]);
    ingest.push(good!, 0);
    for (let i = 0; i < 4; i += 1) ingest.push(malformed, 0);
    ingest.push(good!, 0);
    expect(packets).toHaveLength(2);
    for (let i = 0; i < 4; i += 1) ingest.push(malformed, 0);
    expect(() => ingest.push(malformed, 0)).toThrow('not Opus');
    ingest.close();
  });
});

describe('samples in', () => {
  const rates = [8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000];
  const formats = [
    'pcmu',
    'pcma',
    'g722',
    ...rates.flatMap((rateHz) => [
      `pcm_s16le;rate=${rateHz};channels=1`,
      `pcm_f32le;rate=${rateHz};channels=2`,
    ]),
    ...['pcm_s16be', 'pcm_u8', 'pcm_s24le', 'pcm_s32le'].flatMap((codec) => [
      `${codec};rate=16000;channels=1`,
      `${codec};rate=44100;channels=2`,
    ]),
  ];

  test.each(formats)('push() of a tone as %s, cut anywhere, is that tone in Opus', async (name) => {
    const format = parseAudioFormat(name);
    if (format.codec === 'opus') throw new Error('not a format of samples');
    const { ingest, packets } = await openIngest(format);
    const tone = Float32Array.from(
      { length: format.rateHz },
      (_, i) => 0.5 * Math.sin((2 * Math.PI * 1000 * i) / format.rateHz),
    );
    const bytes = openSampleWriter(format.codec)(upmix(tone, format.channels));
    for (let at = 0, size = 1; at < bytes.length; at += size, size = (size * 7 + 3) % 2999) {
      ingest.push(bytes.subarray(at, at + size), 0);
    }
    expect(packets.length).toBeGreaterThanOrEqual(49);
    expect(packets.length).toBeLessThanOrEqual(50);
    const heard = (await decodeOpus(packets.map(({ packet }) => packet))).slice(9600, 38_400);
    expect(peakHz(heard)).toBe(1000);
    expect(Math.abs(toDb(amplitudeOf(heard, 1000) / 0.5))).toBeLessThan(0.5);
    ingest.close();
  });

  test.each([1, 3, 7, 960, 1919, 1921, 5000, 19_200])(
    'push() makes the same packets of messages of %i bytes',
    async (messageBytes) => {
      const { ingest, packets } = await openIngest({
        codec: 'pcm_s16le',
        rateHz: 48_000,
        channels: 1,
      });
      const bytes = Buffer.concat(pcmTone(1000, 0.5, 200));
      for (let at = 0; at < bytes.length; at += messageBytes) {
        ingest.push(bytes.subarray(at, at + messageBytes), 0);
      }
      expect(packets).toHaveLength(10);
      expect(packets.every(({ audioLevel }) => audioLevel === 9)).toBe(true);
      expect(peakHz(await decodeOpus(packets.map(({ packet }) => packet)))).toBe(1000);
      ingest.close();
    },
  );
});

test('the last samples before a pause, which fill no packet, are not heard after it', async () => {
  const { ingest, packets } = await openIngest(PCM);
  const [loud] = pcmTone(1000, 0.5, 20);
  ingest.push(loud!.subarray(0, 1440), 0);
  for (let i = 0; i < 2; i += 1) ingest.push(Buffer.alloc(1920), 10_000 + i * 20);
  expect(packets.map(({ audioLevel }) => audioLevel)).toEqual([127, 127]);
  ingest.close();
});

test.each([
  ['a clock that is fast by 1 %', 0.99, Infinity],
  ['a stall of 400 ms', 1, 2000],
])(
  'the last samples before a pause of a second are not heard after it, from an even sender with %s',
  async (_, pace, stallAtMs) => {
    const { ingest, packets } = await openIngest(PCM);
    const [loud] = pcmTone(1000, 0.5, 20);
    for (let i = 0; i < 1500; i += 1) {
      const dueMs = i * 20 * pace;
      const isHeldUp = dueMs >= stallAtMs && dueMs < stallAtMs + 400;
      ingest.push(loud!, isHeldUp ? stallAtMs + 400 : dueMs);
    }
    ingest.push(loud!.subarray(0, 1440), 30_000 * pace);
    const before = packets.length;
    const againMs = 31_020 * pace;
    for (let i = 0; i < 2; i += 1) ingest.push(Buffer.alloc(1920), againMs + i * 20);
    expect(packets.slice(before).map(({ audioLevel }) => audioLevel)).toEqual([127, 127]);
    ingest.close();
  },
);

test.each([
  ['at once', 0.05],
  ['within 1.5 s', 15],
])(
  'a piece of 2 s that comes in messages of 15 ms, %s, is continued by the next',
  async (_, spreadMs) => {
    const { ingest, packets } = await openIngest(PCM);
    const message = Buffer.alloc(1440, 0x33);
    for (let i = 0; i < 5 * 133; i += 1) {
      ingest.push(message, Math.floor(i / 133) * 1995 + (i % 133) * spreadMs * 0.75);
    }
    expect(packets).toHaveLength(Math.floor((5 * 133 * 15) / 20));
    ingest.close();
  },
);

test('compressed frames from before and after a cut are not handed on in one packet, nor with the time of the later ones', async () => {
  const frames: Buffer[] = [];
  const reader = DECODED_FORMATS.mp3.openReader((bytes) => frames.push(bytes));
  reader.push(readFixture('speech.mp3'));
  const atMs: number[] = [];
  const target: OpusTarget = {
    sink: (...[, , , packetAtMs]) => void atMs.push(packetAtMs),
    sound: new SoundBudget(),
  };
  const events = { onFault: (fault: unknown) => expect(fault).toBe(undefined), onInside: () => {} };
  const ingest = await createIngest({ codec: 'mp3' }, codecs, target, events);
  // The decoder is given five frames of 24 ms at a time: of these the last four wait for another.
  ingest.push(Buffer.concat(frames.slice(0, 14)), 0);
  target.cutsMs = [500];
  ingest.push(Buffer.concat(frames.slice(14, 40)), 500);
  await vi.waitFor(() => expect(atMs.length).toBeGreaterThan(40), { timeout: 10_000 });
  // The first two frames may hold no sound.
  expect(atMs.filter((packetAtMs) => packetAtMs === 0).length).toBeGreaterThan((12 * 24) / 20 - 1);
  ingest.close();
});

describe('an ingest that takes over from another in the middle of a tone', () => {
  const pcm = (codec: SampleFormat['codec'], rateHz: number, channels = 1): AudioFormat => ({
    codec,
    rateHz,
    channels,
  });
  const OPUS: AudioFormat = { codec: 'opus' };
  const TONE_HZ = 525;

  /** The tone from `fromMs` to `untilMs`. */
  async function messagesOf(format: AudioFormat, fromMs: number, untilMs: number) {
    const rateHz = format.codec === 'opus' ? 48_000 : format.rateHz;
    const whole = toneAt(TONE_HZ, 0.4, 2000, rateHz);
    const part = whole.subarray((fromMs * rateHz) / 1000, (untilMs * rateHz) / 1000);
    return format.codec === 'opus'
      ? (await encodeOpus(whole)).slice(fromMs / 20, untilMs / 20)
      : sampleMessages(format, part, 10);
  }

  const formats = [
    pcm('pcm_s16le', 48_000),
    pcm('pcm_f32le', 44_100, 2),
    pcm('pcm_s16le', 32_000),
    pcm('pcm_f32le', 16_000),
    pcm('pcm_s16le', 11_025),
    pcm('pcmu', 8000),
    OPUS,
  ];
  const changes = formats
    .flatMap((first) => formats.map((second) => [first, second] as const))
    .filter(([, second]) => second.codec !== 'opus');

  test.each(changes.flatMap((change) => [1000, 1010].map((atMs) => [...change, atMs] as const)))(
    '%j, then %j after %i ms: no click, and no more than a frame is missing or too much',
    async (first, second, atMs) => {
      const before = await openIngest(first);
      for (const message of await messagesOf(first, 0, atMs)) before.ingest.push(message, atMs);
      before.ingest.close();
      const said = before.packets.map(({ packet }) => packet);
      const after = await openIngest(second, { packets: said.slice(-4), atMs });
      for (const message of await messagesOf(second, atMs, 2000)) after.ingest.push(message, atMs);
      after.ingest.close();
      const sound = await decodeOpus([...said, ...after.packets.map(({ packet }) => packet)]);
      expect(Math.abs(sound.length / 48 - 2000)).toBeLessThanOrEqual(40);
      expect(findGlitches(sound.subarray(9600))).toEqual([]);
    },
  );
});
