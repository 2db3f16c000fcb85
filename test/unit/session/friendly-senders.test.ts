import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import {
  type DeclaredFormat,
  formatAudioFormat,
  type InputFormat,
} from '../../../src/audio/format.ts';
import { AudioInput } from '../../../src/audio/ingest/input.ts';
import { SoundBudget } from '../../../src/audio/ingest/sound-budget.ts';
import { Uplink } from '../../../src/bridge/uplink.ts';
import { AudioBudget, bytesPerSecondOf } from '../../../src/session/audio-budget.ts';
import { compress, COMPRESSED_FILES, decodeHere } from '../../support/compressed-files.ts';
import { oggOpus } from '../../support/containers.ts';
import { lagsOf, siren } from '../../support/lag.ts';
import { HandClock, type Heard, SimulatedRoom } from '../../support/simulated-room.ts';
import { decodeOpus, encodeOpus, peakHz, sampleMessages, tone } from '../../support/sound.ts';
import { wavFile } from '../../support/wav.ts';

/** Friendly clients that stall, send little at a time, or send one recording after another, from the budget of their messages to the ear of a listener: in virtual time. */

const TIMINGS = { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers };
const TICK_MS = 20;
/** 64 bytes of it are 2 ms. */
const PCM = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 } as const;
const OGG = { codec: 'ogg_opus' } as const;
const OPUS = { codec: 'opus' } as const;
const AMPLITUDE = 0.4;
const PACKET_MS = 20;
/** Look-ahead of an encoder for a low delay, samples. */
const ENCODER_LAG = 120;

type Message = { atMs: number; bytes: Buffer };

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Packets of a client, and the fate of each. */
type Outcome = {
  /** Packets as the input made, or read, them. */
  packets: Buffer[];
  /** For each frame that the listener heard, the number of its packet, and when it came, ms. */
  heard: { number: number; atMs: number }[];
  frames: Buffer[];
  /** Messages and faults by which a client is slowed down or closed. */
  told: string[];
};

/** Lets a client send, and another hear it as Opus. Frames of files are decoded in this thread. */
async function send(format: Format, messages: Message[]): Promise<Outcome> {
  vi.useFakeTimers({ toFake: ['performance'] });
  const startMs = performance.now();
  const room = new SimulatedRoom(codecs, ['speaker', 'listener']);
  const listener = room.listen('listener', { codec: 'opus' });
  const clock = new HandClock();
  const told: string[] = [];
  const uplink = new Uplink(
    () => {
      throw new Error('nobody listens behind the router');
    },
    { isOpen: false },
    {
      mixer: {
        receive: (peer, packet, atMs, isMuted) =>
          room.mixer.receive(peer, packet, atMs - startMs, isMuted),
        openLateBeginning: () => undefined,
      },
      peer: 'speaker',
    },
    clock,
    TIMINGS,
    {
      onProducer: async () => {},
      onFlow: (state) => told.push(state),
      onFault: (fault) => told.push(String(fault)),
    },
  );
  const packets: Buffer[] = [];
  const here = decodeHere(codecs);
  const input = new AudioInput(
    format,
    here.codecs,
    {
      sound: new SoundBudget(),
      sink: (packet, ...rest) => {
        packets.push(packet);
        uplink.send(packet, ...rest);
      },
    },
    {
      onDetected: () => {},
      onOpaque: () => told.push('opaque'),
      onMismatch: ({ format: other }) => told.push(formatAudioFormat(other)),
      onFault: (fault) => told.push(String(fault)),
    },
  );
  const budget = new AudioBudget({ closeAfterMs: 5000 }, 0);
  const setTime = (ms: number) => vi.advanceTimersByTime(startMs + ms - performance.now());
  let tickMs = TICK_MS;
  const passTo = async (ms: number) => {
    for (; tickMs <= ms; tickMs += TICK_MS) {
      setTime(tickMs);
      await room.passTo(tickMs);
      clock.tick(performance.now());
    }
    setTime(ms);
    await room.passTo(ms);
  };
  for (const { atMs, bytes } of messages) {
    await passTo(atMs);
    if (budget.charge(bytes.length, bytesPerSecondOf(format), atMs)) told.push('over budget');
    input.push(bytes, performance.now());
    if (isFile(format)) await here.settle();
  }
  await passTo(messages.at(-1)!.atMs + 4000);
  input.close();
  uplink.close();
  expect(room.faults).toEqual([]);
  return { packets, heard: numbersOf(listener, packets), frames: listener.frames, told };
}

function numbersOf({ frames, framesAtMs }: Heard, packets: Buffer[]): Outcome['heard'] {
  const numbers = new Map(packets.map((packet, number) => [packet.toString('hex'), number]));
  return frames.map((frame, i) => ({
    number: numbers.get(frame.toString('hex')) ?? -1,
    atMs: framesAtMs[i]!,
  }));
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);

/** Cuts bytes into messages of `size`. */
const cut = (bytes: Buffer, size: number) =>
  upTo(Math.ceil(bytes.length / size)).map((i) => bytes.subarray(i * size, (i + 1) * size));

const isFile = ({ codec }: InputFormat) => ['mp3', 'flac', 'wav'].includes(codec);

/** Messages that come evenly in `durationMs`. */
const evenly = (parts: Buffer[], durationMs: number): Message[] =>
  parts.map((bytes, i) => ({ atMs: (i * durationMs) / parts.length, bytes }));

type Format = InputFormat & DeclaredFormat;
type Sender = [string, Format, (durationMs: number) => Promise<Buffer[]>];

/** Sound of a client as one piece of bytes for each 20 ms. */
const SENDERS: [Sender, Sender] = [
  ['samples', PCM, async (ms) => sampleMessages(PCM, siren(AMPLITUDE, ms, PCM.rateHz))],
  [
    'a container',
    OGG,
    async (ms) => oggOpus(await encodeOpus(siren(AMPLITUDE, ms)), PACKET_MS, { packetsPerPage: 1 }),
  ],
];

/** Sound of a client as a file, in messages of a frame each. */
const framesOf = async (codec: 'mp3' | 'flac', durationMs: number): Promise<Message[]> => {
  const messages = await compress(COMPRESSED_FILES[codec], siren(AMPLITUDE, durationMs));
  return messages.map(({ message: bytes, atMs }) => ({ bytes, atMs }));
};

/** Sound that may be missing of a recording: the last frame, a rest of less than 20 ms, and the delay of a codec. */
const MAX_MISSING_MS = 80;

/** A sender of bare packets, which cannot be cut. */
const PACKETS: Sender = ['packets of Opus', OPUS, async (ms) => encodeOpus(siren(AMPLITUDE, ms))];

const numbers = (heard: Outcome['heard']) => heard.map(({ number }) => number);

describe('64 bytes at a time', () => {
  const FOR_MS = 10_000;

  test.each(SENDERS)(
    'of %s: all is heard, and the client is told nothing',
    async (_, format, make) => {
      const bytes = Buffer.concat(await make(FOR_MS));
      const { heard, frames, told } = await send(format, evenly(cut(bytes, 64), FOR_MS));
      expect(told).toEqual([]);
      expect(numbers(heard)).toEqual(upTo(FOR_MS / PACKET_MS));
      const lags = lagsOf(siren(AMPLITUDE, FOR_MS), await decodeOpus(frames));
      expect(new Set(lags.map(({ lag }) => lag))).toEqual(new Set([ENCODER_LAG]));
      expect(lags).toHaveLength(FOR_MS / 50);
    },
  );
});

describe('a stall, and then all of it at once', () => {
  const STALLS_AT_MS = 3000;
  const LIVE_WITHIN_MS = 4000;
  const AFTER_MS = 12_000;
  const SHORTENED_WITHIN_MS = 100;
  const MAX_LATE_MS = 100;

  /** Holds messages up from the beginning of the stall until its end. */
  const holdUp = (messages: Message[], endMs: number): Message[] =>
    messages.map(({ atMs, bytes }, i) => ({
      atMs: (atMs >= STALLS_AT_MS && atMs < endMs ? endMs : atMs) + i * 1e-4,
      bytes,
    }));

  describe.each([1000, 2000, 4000, 8000])('of %i ms', (stallMs) => {
    const endMs = STALLS_AT_MS + stallMs;
    const forMs = endMs + AFTER_MS;

    const messagesOf = async ([, , make]: Sender, size?: number) => {
      const parts = await make(forMs);
      return evenly(size ? cut(Buffer.concat(parts), size) : parts, forMs);
    };
    const [samples, container] = SENDERS;

    test.each<[string, Format, () => Promise<Message[]>, number?]>([
      ['samples, 20 ms at a time', PCM, () => messagesOf(samples)],
      ['samples, 64 bytes at a time', PCM, () => messagesOf(samples, 64)],
      ['a container, a page of 20 ms at a time', OGG, () => messagesOf(container)],
      ['a container, 64 bytes at a time', OGG, () => messagesOf(container, 64)],
      ['packets of Opus, one at a time', OPUS, () => messagesOf(PACKETS)],
      ['MP3, a frame at a time', { codec: 'mp3' }, () => framesOf('mp3', forMs)],
      ['FLAC, a frame of 96 ms at a time', { codec: 'flac' }, () => framesOf('flac', forMs), 96],
    ])(
      '%s: heard live and whole after 4 s, and not closed',
      async (_, format, make, pieceMs = 0) => {
        const { packets, heard, told } = await send(format, holdUp(await make(), endMs));
        // A client that is ahead by more than 2.3 s is told to wait.
        expect(told).toEqual(stallMs <= 2000 ? [] : ['xoff', 'xon']);
        const before = heard.filter(({ atMs }) => atMs < STALLS_AT_MS);
        expect(numbers(before)).toEqual(upTo(before.length));
        expect(before.length).toBeGreaterThan(STALLS_AT_MS / PACKET_MS - 5);
        const live = heard.filter(({ atMs }) => atMs > endMs + LIVE_WITHIN_MS);
        // The last 40 ms of the delay are left out at the end of these 4 s, where a message comes.
        const wholeFromMs = endMs + LIVE_WITHIN_MS + SHORTENED_WITHIN_MS + 2 * pieceMs;
        const whole = live.filter(({ atMs }) => atMs > wholeFromMs);
        const first = whole[0]!.number;
        const missingMs = Math.abs(packets.length * PACKET_MS - forMs);
        expect(missingMs).toBeLessThanOrEqual(isFile(format) ? MAX_MISSING_MS : 0);
        expect(numbers(whole)).toEqual(upTo(packets.length - first).map((i) => first + i));
        const late = live.map(({ number, atMs }) => atMs - number * PACKET_MS);
        expect(Math.max(...late)).toBeLessThanOrEqual(MAX_LATE_MS + pieceMs);
        expect(live.length - whole.length).toBeGreaterThanOrEqual(
          SHORTENED_WITHIN_MS / PACKET_MS - 2,
        );
        const all = numbers(heard);
        expect(all).toEqual([...new Set(all)].toSorted((one, other) => one - other));
        expect(all[0]).toBe(0);
      },
    );
  });
});

describe('recordings of different rates, one after another on one connection, in real time', () => {
  const EACH_MS = 6000;
  /** Pieces of a recording of which the pitch is compared, s from its beginning. */
  const PIECES_S = [1, 3, 5];
  const RATES_HZ = { mp3: [44_100, 16_000, 48_000, 22_050], flac: [96_000, 8000, 44_100, 16_000] };
  const WAVE_RATES_HZ = [8000, 44_100, 16_000, 48_000];
  const pitchOf = (recording: number) => 500 + 200 * recording;

  /** Messages of a frame each, as a client sends them while it plays the recordings. */
  async function compressed(codec: 'mp3' | 'flac'): Promise<Message[]> {
    const recordings: Message[][] = [];
    for (const [i, rateHz] of RATES_HZ[codec].entries()) {
      const encode = ['-ar', String(rateHz), '-f', codec];
      const messages = await compress({ codec, encode }, tone(pitchOf(i), AMPLITUDE, EACH_MS));
      // A recording may end with a little silence.
      const fromMs = recordings.at(-1)?.at(-1)!.atMs ?? 0;
      recordings.push(messages.map(({ message: bytes, atMs }) => ({ bytes, atMs: fromMs + atMs })));
    }
    return recordings.flat();
  }

  /** Messages of 20 ms each, the first of which begins with the head of a file. */
  async function waves(): Promise<Message[]> {
    const recordings = WAVE_RATES_HZ.map((rateHz, i) => {
      const format = { codec: 'pcm_s16le', rateHz, channels: 1 } as const;
      const messages = sampleMessages(format, tone(pitchOf(i), AMPLITUDE, EACH_MS, rateHz));
      const bytes = EACH_MS * 2 * (rateHz / 1000);
      const [first, ...others] = messages;
      return [wavFile(format, first!, bytes), ...others].map((each, n) => ({
        bytes: each,
        atMs: i * EACH_MS + n * PACKET_MS,
      }));
    });
    return recordings.flat();
  }

  /** Joins the messages of each `pieceMs`, some of which hold the end of a recording and the beginning of the next. */
  const joined = (messages: Message[], pieceMs: number): Message[] =>
    upTo(Math.ceil(messages.at(-1)!.atMs / pieceMs) + 1).flatMap((i) => {
      const piece = messages.filter(({ atMs }) => Math.floor(atMs / pieceMs) === i);
      const bytes = Buffer.concat(piece.map((message) => message.bytes));
      return bytes.length > 0 ? [{ bytes, atMs: (i + 1) * pieceMs }] : [];
    });

  test.each<[string, Format, () => Promise<Message[]>, number | undefined]>([
    ['MP3, a frame at a time', { codec: 'mp3' }, () => compressed('mp3'), undefined],
    ['MP3, 140 ms at a time', { codec: 'mp3' }, () => compressed('mp3'), 140],
    ['FLAC, a frame at a time', { codec: 'flac' }, () => compressed('flac'), undefined],
    ['FLAC, 250 ms at a time', { codec: 'flac' }, () => compressed('flac'), 250],
    ['WAVE, 20 ms at a time', { codec: 'wav' }, waves, undefined],
    ['WAVE, 140 ms at a time', { codec: 'wav' }, waves, 140],
  ])('%s: each is heard whole, at its pitch', async (_, format, make, pieceMs) => {
    const made = await make();
    const messages = pieceMs ? joined(made, pieceMs) : made;
    const { packets, frames, told } = await send(format, messages);
    expect(told).toEqual([]);
    const recordings = WAVE_RATES_HZ.length;
    const missingMs = recordings * EACH_MS - frames.length * PACKET_MS;
    // The silence between two recordings may be longer or shorter.
    expect(Math.abs(frames.length - packets.length)).toBeLessThanOrEqual(recordings);
    expect(missingMs).toBeLessThanOrEqual(recordings * MAX_MISSING_MS);
    const sound = await decodeOpus(frames);
    const secondAt = (atS: number) => sound.subarray(atS * 48_000, (atS + 0.5) * 48_000);
    const pitches = upTo(recordings).map((i) =>
      PIECES_S.map((atS) => peakHz(secondAt((i * EACH_MS) / 1000 + atS))),
    );
    expect(pitches).toEqual(upTo(recordings).map((i) => PIECES_S.map(() => pitchOf(i))));
  });
});
