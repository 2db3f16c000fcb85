import { describe, expect, test } from 'vitest';
import { type InputFormat, parseDeclaredFormat } from '../../../src/audio/format.ts';
import {
  AudioBudget,
  bytesPerSecondOf,
  type Overdraft,
} from '../../../src/session/audio-budget.ts';
import { ReadGate } from '../../../src/session/read-gate.ts';

type Message = { atMs: number; bytes: number };

/** Messages of `bytes` bytes, one every `ms`. */
function everyMs(ms: number, bytes: number, { fromMs = 0, toMs = 20_000 } = {}): Message[] {
  const count = Math.round((toMs - fromMs) / ms);
  return Array.from({ length: count }, (_, i) => ({ atMs: fromMs + i * ms, bytes }));
}

function charge(audio: string, messages: Message[]): (Overdraft & { atMs: number })[] {
  const budget = new AudioBudget({ closeAfterMs: 5000 }, 0);
  const bytesPerSecond = bytesPerSecondOf(parseDeclaredFormat(audio) as InputFormat);
  return messages.flatMap(({ atMs, bytes }) => {
    const overdraft = budget.charge(bytes, bytesPerSecond, atMs);
    return overdraft ? [{ ...overdraft, atMs }] : [];
  });
}

const WIDE = 'pcm_f32le;rate=48000;channels=2';

describe('AudioBudget.charge() of a friendly client', () => {
  test.each<[string, string, Message[]]>([
    ['Opus of 510 kbit/s in packets of 20 ms', 'opus', everyMs(20, 1276)],
    ['Opus of 510 kbit/s in packets of 2.5 ms', 'opus', everyMs(2.5, 160)],
    ['64 bytes every 2 ms', 'pcm_s16le;rate=16000;channels=1', everyMs(2, 64)],
    ['the widest samples, 20 ms each', WIDE, everyMs(20, 7680)],
    ['the widest samples, a second at a time', WIDE, everyMs(1000 / 6, 64_000)],
    [
      'a stall of 8 s, and then all of it at once',
      WIDE,
      [
        ...everyMs(0.01, 7680, { fromMs: 8000, toMs: 8004 }),
        ...everyMs(20, 7680, { fromMs: 8020 }),
      ],
    ],
    [
      'a stall of 8 s of a message every 2 ms',
      'pcm_s16le;rate=16000;channels=1',
      [...everyMs(0.01, 64, { fromMs: 8000, toMs: 8040 }), ...everyMs(2, 64, { fromMs: 8042 })],
    ],
    ['twice real time for 10 s, which is ahead of time', WIDE, everyMs(10, 7680, { toMs: 10_000 })],
    ['a recording of WebM at 128 kbit/s, 5 ms each', 'webm_opus', everyMs(5, 80)],
  ])('%s: within the budget', (_, audio, messages) => {
    expect(charge(audio, messages)).toEqual([]);
  });
});

describe('AudioBudget.charge() of more than any sound needs', () => {
  test.each<[string, string, Message[]]>([
    ['Opus of 1500 bytes every 2.5 ms', 'opus', everyMs(2.5, 1500)],
    ['a byte every 0.1 ms', WIDE, everyMs(0.1, 1)],
    ['empty messages', 'opus', everyMs(0.1, 0)],
    ['samples at eight times real time', WIDE, everyMs(2.5, 7680)],
    ['a container of 1 MB a second', 'ogg_opus', everyMs(10, 10_000)],
  ])('%s: told once, read more slowly, and given up after 5 s', (_, audio, messages) => {
    const overdrafts = charge(audio, messages);
    const [first] = overdrafts;
    expect(overdrafts.filter(({ isFirst }) => isFirst)).toEqual([first]);
    expect(first!.atMs).toBeLessThan(5000);
    expect(first!.retryAfterMs).toBeGreaterThan(0);
    expect(overdrafts.every(({ waitMs }) => waitMs > 0 && waitMs <= 1000)).toBe(true);
    const last = overdrafts.find(({ isLast }) => isLast);
    expect(last!.atMs - first!.atMs).toBeGreaterThanOrEqual(5000);
    expect(last!.atMs - first!.atMs).toBeLessThan(5100);
  });

  test('messages read beyond a debt of a second are not handled', () => {
    const overdrafts = charge(WIDE, everyMs(0.001, 1, { toMs: 60 }));
    const lookedAt = 60_000 - overdrafts.filter(({ isRefused }) => isRefused).length;
    expect(lookedAt).toBeGreaterThan(6000);
    expect(lookedAt).toBeLessThan(7000);
  });

  test('a client that stops for some seconds when it is told is told again later, and not closed', () => {
    const overdrafts = charge(WIDE, [
      ...everyMs(0.1, 1, { toMs: 700 }),
      ...everyMs(0.1, 1, { fromMs: 10_000, toMs: 12_000 }),
    ]);
    expect(overdrafts.filter(({ isFirst }) => isFirst).length).toBe(2);
    expect(overdrafts.some(({ isLast }) => isLast)).toBe(false);
  });
});

test('a socket is read when none of those that have stopped it holds it any more', () => {
  const socket = {
    isPaused: false,
    pause: () => (socket.isPaused = true),
    resume: () => (socket.isPaused = false),
  };
  const gate = new ReadGate(socket);
  const [one, other] = [gate.open(), gate.open()];
  one.pause();
  other.pause();
  expect([one.isPaused, other.isPaused, socket.isPaused]).toEqual([true, true, true]);
  one.resume();
  expect([one.isPaused, other.isPaused, socket.isPaused]).toEqual([false, true, true]);
  other.resume();
  expect(socket.isPaused).toBe(false);
});
