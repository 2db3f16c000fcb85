import { beforeAll, describe, expect, test } from 'vitest';
import { type AudioFormat, formatAudioFormat, type SampleFormat } from '../../src/audio/format.ts';
import { findGlitches } from '../support/glitches.ts';
import {
  AMPLITUDE,
  AS_SENT,
  describeTone,
  ENOUGH_MS,
  hearAs,
  OPUS,
  openRoom,
  PCM,
  powerOf,
  SETTLED_SAMPLES,
  speak,
  toleranceOf,
  TONE_HZ,
  TONE_MS,
  undisturbed,
  untilHeard,
} from '../support/listening.ts';
import { seededRandom } from '../support/random.ts';
import { encodeOpus, opusTone, sampleMessages, sampleTone, sweep, tone } from '../support/sound.ts';
import { useGateway } from '../support/use-gateway.ts';

const { enter } = useGateway();

/** All formats are heard in virtual time (test/unit/audio/formats.test.ts); these go through a gateway. */
const SAMPLE_FORMATS: SampleFormat[] = [
  { codec: 'pcmu', rateHz: 8000, channels: 1 },
  { codec: 'pcm_s16le', rateHz: 44_100, channels: 2 },
  { codec: 'pcm_f32le', rateHz: 48_000, channels: 1 },
];

type Case = { name: string; format: AudioFormat; messages: Buffer[]; everyMs?: number };

async function hearRoom({ name, format, messages, everyMs }: Case, attempt: number) {
  const { speaker, opus, pcm } = await openRoom(enter, `${name} ${attempt}`, format);
  await speak(speaker, messages, everyMs);
  await untilHeard('all is heard', () => pcm.frames.length * 20 >= ENOUGH_MS);
  return { name, opus: [...opus.frames], pcm: [...pcm.frames] };
}

/** Records each case in its room; all play at the same time, and are judged afterwards. */
const recordRooms = (cases: Case[]) =>
  undisturbed((number) => Promise.all(cases.map((each) => hearRoom(each, number))));

async function hearRooms(cases: Case[]) {
  return describeRooms(await recordRooms(cases));
}

async function describeRooms(rooms: Awaited<ReturnType<typeof hearRoom>>[]) {
  const heard = [];
  for (const { name, opus, pcm } of rooms) {
    heard.push({
      name,
      opus: await describeTone(OPUS, opus),
      pcm: await describeTone(PCM, pcm),
    });
  }
  return heard;
}

const allAsSent = (cases: Case[]) =>
  cases.map(({ name }) => ({ name, opus: AS_SENT, pcm: AS_SENT }));

describe('a tone in samples', () => {
  test('sent: right in frequency and level, and without a glitch', async () => {
    const cases = SAMPLE_FORMATS.map((format) => ({
      name: formatAudioFormat(format),
      format,
      messages: sampleTone(format, TONE_HZ, AMPLITUDE, TONE_MS),
    }));
    expect(await hearRooms(cases)).toEqual(allAsSent(cases));
  });

  test('heard: the same', async () => {
    const tonePackets = await opusTone(TONE_HZ, AMPLITUDE, TONE_MS);
    const listeners = await undisturbed(async (number) => {
      const room = `heard ${number}`;
      const speaker = await enter(`speaker ${number}`, { room });
      const clients = await Promise.all(
        SAMPLE_FORMATS.map(async (format) => {
          const name = formatAudioFormat(format);
          const query = { room, audio_out: name };
          return { name, format, client: await enter(`${name} ${number}`, query) };
        }),
      );
      await speak(speaker, tonePackets);
      await untilHeard('all is heard', () =>
        clients.every(({ client }) => client.frames.length * 20 >= ENOUGH_MS),
      );
      return clients.map(({ name, format, client }) => ({
        name,
        format,
        frames: [...client.frames],
      }));
    });
    const heard = [];
    for (const { name, format, frames } of listeners) {
      heard.push({ name, ...(await describeTone(format, frames)) });
    }
    expect(heard).toEqual(listeners.map(({ name }) => ({ name, ...AS_SENT })));
  });
});

describe('a tone in messages that split samples anywhere', () => {
  const formats: SampleFormat[] = [
    { codec: 'pcm_s16le', rateHz: 44_100, channels: 2 },
    { codec: 'pcm_f32le', rateHz: 22_050, channels: 1 },
    { codec: 'pcm_s16le', rateHz: 8000, channels: 1 },
  ];
  const caseOf = (format: SampleFormat): Case => {
    const bytes = Buffer.concat(sampleTone(format, TONE_HZ, AMPLITUDE, TONE_MS));
    const random = seededRandom(format.rateHz);
    const messages: Buffer[] = [];
    const meanBytes = (20 / TONE_MS) * bytes.length;
    for (let at = 0, cut = 0; at < bytes.length; at = cut) {
      const jitter = Math.floor((random() - 0.5) * meanBytes * 0.5);
      cut = Math.round((messages.length + 1) * meanBytes) + jitter;
      messages.push(bytes.subarray(at, cut));
    }
    return { name: formatAudioFormat(format), format, messages };
  };
  const cases = formats.map(caseOf);

  let rooms: Awaited<ReturnType<typeof recordRooms>>;
  beforeAll(async () => {
    rooms = await recordRooms(cases);
  });

  test.each(cases)('$name: right in frequency and level, and without a glitch', async (sent) => {
    expect(sent.messages.some(({ length }) => length % 2 === 1)).toBe(true);
    const recorded = rooms.filter(({ name }) => name === sent.name);
    expect(await describeRooms(recorded)).toEqual(allAsSent([sent]));
  });
});

describe('Opus of any frame duration', () => {
  test('mono and stereo: heard as it was sent', async () => {
    const sound = tone(TONE_HZ, AMPLITUDE, TONE_MS);
    const kinds = [2.5, 5, 10, 20, 40, 60, 120].flatMap((packetMs) =>
      ([1, 2] as const).map((channels) => ({ packetMs, channels })),
    );
    const cases = await Promise.all(
      kinds.map(async ({ packetMs, channels }) => ({
        name: `${packetMs} ms, ${channels} channels`,
        format: OPUS,
        messages: await encodeOpus(sound, packetMs, {
          channels,
          bitrate: packetMs < 10 ? 128_000 : 64_000,
        }),
        everyMs: packetMs,
      })),
    );
    expect(await hearRooms(cases)).toEqual(allAsSent(cases));
  });
});

describe('a sweep from 200 to 3200 Hz: no glitch, and as loud all the way', () => {
  const formats: AudioFormat[] = [
    OPUS,
    PCM,
    { codec: 'pcm_s16le', rateHz: 44_100, channels: 2 },
    { codec: 'pcm_f32le', rateHz: 16_000, channels: 1 },
    { codec: 'pcmu', rateHz: 8000, channels: 1 },
  ];
  const names = formats.map(formatAudioFormat);
  const caseOf = async (format: AudioFormat, i: number): Promise<Case> => {
    const range: [number, number] = [200, 3200];
    const messages =
      format.codec === 'opus'
        ? await encodeOpus(sweep(range, AMPLITUDE, 2000))
        : sampleMessages(format, sweep(range, AMPLITUDE, 2000, format.rateHz));
    return { name: names[i]!, format, messages };
  };

  let rooms: Awaited<ReturnType<typeof recordRooms>>;
  beforeAll(async () => {
    rooms = await recordRooms(await Promise.all(formats.map(caseOf)));
  });

  test.each(names)('sent as %s', async (name) => {
    const { opus, pcm } = rooms.find((room) => room.name === name)!;
    for (const [heardAs, frames] of [
      [OPUS, opus],
      [PCM, pcm],
    ] as const) {
      const sound = (await hearAs(heardAs, frames)).subarray(SETTLED_SAMPLES, 48 * 1300);
      expect(findGlitches(sound)).toEqual([]);
      const levels = Array.from({ length: 10 }, (_, i) => {
        const part = sound.subarray(i * 4800, (i + 1) * 4800);
        return Math.abs(10 * Math.log10((2 * powerOf(part)) / AMPLITUDE ** 2));
      });
      expect(Math.max(...levels)).toBeLessThan(toleranceOf(OPUS));
    }
  });
});
