import { beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { DeclaredFormat, SampleFormat } from '../../../src/audio/format.ts';
import { counters } from '../../../src/counters.ts';
import { AT_ONCE } from '../../../src/audio/ingest/held-audio.ts';
import { ClientInput } from '../../../src/session/client-input.ts';
import { opusTone, pcmTone, sampleTone } from '../../support/sound.ts';

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Input of a client, the times of arrival of what is heard of it, and what is relayed. */
function openInput(isJoining: () => boolean, declared: DeclaredFormat = 'auto') {
  const relayed: string[] = [];
  const faults: unknown[] = [];
  const input = new ClientInput({ declared }, codecs, AT_ONCE, {
    isJoining,
    onDetected: () => {},
    onOpaque: (message) => relayed.push(message.toString('latin1', 0, 1)),
    onUncovered: () => {},
    onMismatch: (observed) => faults.push(observed),
    onFault: (fault) => faults.push(fault),
  });
  const heardAtMs: number[] = [];
  const sink = (_packet: Buffer, _samples: number, _level: number, atMs: number) =>
    void heardAtMs.push(atMs);
  const say = (...texts: string[]) => {
    for (const text of texts) input.receive(Buffer.from(text), performance.now());
  };
  return { input, faults, heardAtMs, relayed, say, sink };
}

test('what a client of a yet unknown format said in the lobby is not heard in the room that it joins', async () => {
  let isJoining = false;
  const { input, faults, heardAtMs, sink } = openInput(() => isJoining);
  const tone = pcmTone(440, 0.5, 2000);
  const startMs = performance.now() - 1000;
  const send = (from: number, to: number) => {
    for (let i = from; i < to; i += 1) input.receive(tone[i]!, startMs + i * 20);
  };
  send(0, 10);
  isJoining = true;
  send(10, 15);
  input.attach(sink);
  send(15, 50);
  await vi.waitFor(() => expect(heardAtMs.length).toBeGreaterThan(20), { timeout: 10_000 });
  expect(Math.min(...heardAtMs)).toBeGreaterThanOrEqual(startMs + 10 * 20);
  expect(faults).toEqual([]);
  input.close();
});

/** Input of a client in a room, of which every message is relayed at once. */
function openRelayed() {
  const opened = openInput(() => true, { codec: 'opaque' });
  opened.input.attach(opened.sink);
  opened.say('a');
  return opened;
}

test('mark(): what comes behind it is read in the format that the client is given', async () => {
  const { input, faults, heardAtMs, relayed } = openRelayed();
  input.mark();
  for (const packet of await opusTone(440, 0.5, 60)) input.receive(packet, performance.now());
  expect(input.format).toEqual({ codec: 'opaque' });
  input.reopen({ declared: { codec: 'opus' } });
  input.passMark();
  await vi.waitFor(() => expect(heardAtMs.length).toBe(3), { timeout: 10_000 });
  expect([relayed, faults]).toEqual([['a'], []]);
  input.close();
});

test('passMark(): without another format, what came behind the mark goes on in the old one, before later messages', () => {
  const { input, relayed, say } = openRelayed();
  input.mark();
  say('b', 'c');
  expect(relayed.join('')).toBe('a');
  input.passMark();
  say('d');
  expect(relayed.join('')).toBe('abcd');
  input.close();
});

test('mark(), again and again: each mark holds what came behind it', () => {
  const { input, relayed, say } = openRelayed();
  input.mark();
  say('b');
  input.mark();
  say('c');
  input.passMark();
  expect(relayed.join('')).toBe('ab');
  say('d');
  input.drain();
  input.flush();
  expect(relayed.join('')).toBe('ab');
  input.passMark();
  say('e');
  expect(relayed.join('')).toBe('abcde');
  input.close();
});

test('what came behind a mark waits for the end of a join, and is dropped without one', () => {
  const { input, relayed, say, sink } = openRelayed();
  input.attach(undefined);
  input.mark();
  say('b');
  input.passMark();
  input.attach(sink);
  expect(relayed.join('')).toBe('ab');
  input.mark();
  say('c');
  const droppedBefore = counters.dropped.not_in_room;
  input.flush();
  input.attach(undefined);
  input.passMark();
  input.drain();
  input.attach(sink);
  say('d');
  expect(relayed.join('')).toBe('abd');
  expect(counters.dropped.not_in_room - droppedBefore).toBe(1);
  input.close();
});

test('what a client sends behind marks is held up to 3 s of sound, and the rest is dropped', () => {
  const { input, relayed, say } = openRelayed();
  const text = 'b'.repeat(64_000);
  for (let sent = 0; sent < 100; sent += 1) {
    input.mark();
    say(text);
  }
  for (let sent = 0; sent < 100; sent += 1) input.passMark();
  expect(relayed.length - 1).toBe((3 * 384_000) / 64_000 + 1);
  say('c');
  expect(relayed.at(-1)).toBe('c');
  input.close();
});

const PCM_16_KHZ = { codec: 'pcm_s16le', rateHz: 16_000, channels: 1 } as const;

/** Audio levels (-dBov) of what is heard of samples, whose messages may end within a sample. */
function openSamples() {
  const { input, faults } = openInput(() => true, PCM_16_KHZ);
  const levels: number[] = [];
  input.attach((_packet, _samples, level) => void levels.push(level));
  const bytes = Buffer.concat(sampleTone(PCM_16_KHZ, 300, 0.05, 4000));
  const startMs = performance.now();
  /** Calls back with the messages between two times, ms, each of 1365 bytes. */
  const eachBetween = (
    fromMs: number,
    toMs: number,
    take: (message: Buffer, atMs: number) => void,
  ) => {
    const [from, to] = [fromMs, toMs].map((ms) => Math.floor((ms * 32) / 1365));
    for (let i = from!; i < to!; i += 1) {
      take(bytes.subarray(i * 1365, (i + 1) * 1365), startMs + (i * 1365) / 32);
    }
  };
  const receive = (message: Buffer, atMs: number) => input.receive(message, atMs);
  return { input, faults, levels, eachBetween, receive };
}

test('refuse(): samples behind refused messages of odd length are read as they were sent', async () => {
  const { input, faults, levels, eachBetween, receive } = openSamples();
  eachBetween(0, 1000, receive);
  await vi.waitFor(() => expect(levels.length).toBeGreaterThan(40));
  eachBetween(1000, 1400, (message) => input.refuse(message));
  eachBetween(1400, 3000, receive);
  expect(levels.length).toBeGreaterThan(120);
  // The resumption is a step in the tone.
  expect(Math.min(...levels)).toBeGreaterThan(26);
  expect(Math.max(...levels.slice(1))).toBeLessThan(32);
  expect(faults).toEqual([]);
  input.close();
});

test('refuse(): what was refused before a mark does not shift samples of the format behind it', async () => {
  const { input, faults, levels, eachBetween, receive } = openSamples();
  eachBetween(0, 1000, receive);
  await vi.waitFor(() => expect(levels.length).toBeGreaterThan(40));
  input.refuse(Buffer.alloc(1365));
  input.mark();
  input.reopen({ declared: PCM_16_KHZ });
  input.passMark();
  levels.length = 0;
  eachBetween(0, 1000, (message, atMs) => receive(message, atMs + 1100));
  await vi.waitFor(() => expect(levels.length).toBeGreaterThan(40));
  expect(Math.min(...levels)).toBeGreaterThan(26);
  expect(faults).toEqual([]);
  input.close();
});

describe('two messages of a client of yet unknown format, and then the declaration of its samples', () => {
  const openUndeclared = () => {
    const { input, faults, heardAtMs, sink } = openInput(() => true);
    input.attach(sink);
    const startMs = performance.now();
    const say = (pieces: Buffer[], fromMs = 0) => {
      for (const [i, piece] of pieces.entries()) {
        input.receive(piece, startMs + fromMs + (i + 1) * 1000);
      }
    };
    return { input, faults, heardAtMs, say };
  };
  const tone = (format: SampleFormat) => sampleTone(format, 300, 0.2, 2000, 1000);

  test('in that format: they are heard, before later ones', async () => {
    const { input, faults, heardAtMs, say } = openUndeclared();
    say(tone(PCM_16_KHZ));
    input.reopen({ declared: PCM_16_KHZ });
    say(tone(PCM_16_KHZ).slice(1), 2000);
    await vi.waitFor(() => expect(heardAtMs).toHaveLength(150), { timeout: 10_000 });
    expect(heardAtMs).toEqual(heardAtMs.toSorted((a, b) => a - b));
    expect(faults).toEqual([]);
    input.close();
  });

  test.each<[string, Buffer[]]>([
    ['in another format', tone({ codec: 'pcmu', rateHz: 8000, channels: 1 })],
    ['at another rate', tone({ ...PCM_16_KHZ, rateHz: 24_000 })],
    ['that cut a sample', tone(PCM_16_KHZ).map((piece, i) => piece.subarray(i))],
    ['of which one came', tone(PCM_16_KHZ).slice(1)],
  ])('%s: they are not heard as noise', async (_, pieces) => {
    const { input, faults, heardAtMs, say } = openUndeclared();
    say(pieces);
    input.reopen({ declared: PCM_16_KHZ });
    say(tone(PCM_16_KHZ).slice(1), 2000);
    await vi.waitFor(() => expect(heardAtMs.length).toBeGreaterThanOrEqual(50));
    expect(heardAtMs).toHaveLength(50);
    expect(faults).toEqual([]);
    input.close();
  });
});

test('reopen() as opaque while the format is unknown: what came in the room is relayed, first of all', async () => {
  const { input, relayed, sink } = openInput(() => true);
  const startMs = performance.now();
  const say = (text: string, afterMs: number) =>
    input.receive(Buffer.from(text), startMs + afterMs);
  say('a', 0);
  input.attach(undefined);
  input.attach(sink);
  say('b', 1000);
  // Behind a pause.
  say('c', 6000);
  say('d', 6020);
  input.reopen({ declared: { codec: 'opaque' } });
  say('e', 6040);
  await vi.waitFor(() => expect(relayed.join('')).toBe('bcde'));
  input.close();
});

test.each([
  ['opaque', { codec: 'opaque' }, 1],
  ['samples whose pace it has not', { codec: 'pcm_s16le', rateHz: 48_000, channels: 2 }, 3],
  ['auto', 'auto', 3],
] as const)(
  'reopen() as %s: messages of yet unknown format that are not handed on are counted',
  async (_, declared, lost) => {
    vi.useFakeTimers({ toFake: ['performance'] });
    onTestFinished(() => void vi.useRealTimers());
    const { input, relayed, say, sink } = openInput(() => true);
    const { late } = counters.dropped;
    input.attach(sink);
    // The first one is then too old, and the last one does not come before a pause.
    say('a');
    vi.advanceTimersByTime(3000);
    say('b');
    vi.advanceTimersByTime(27_000);
    say('c');
    vi.advanceTimersByTime(100);
    input.reopen({ declared });
    expect(counters.dropped.late - late).toBe(lost);
    await vi.waitFor(() => expect(relayed.join('')).toBe(lost === 1 ? 'bc' : ''));
    input.close();
  },
);

test('the rest of a frame from before a pause of 1.5 s is not heard after it', async () => {
  const { input, levels, faults } = openSamples();
  const startMs = performance.now();
  const word = sampleTone(PCM_16_KHZ, 300, 0.2, 210, 30);
  for (const [i, message] of word.entries()) input.receive(message, startMs + 30 * i);
  await vi.waitFor(() => expect(levels).toHaveLength(10));
  for (let i = 0; i < 4; i += 1) input.receive(Buffer.alloc(960), startMs + 1710 + 30 * i);
  expect(levels.slice(10)).toEqual([127, 127, 127, 127, 127, 127]);
  expect(faults).toEqual([]);
  input.close();
});

test('samples in pieces of 1 s, one of them 0.7 s late: nothing is left out', async () => {
  const { input, levels, faults } = openSamples();
  const startMs = performance.now();
  // 1.01 s, so that each ends within a frame.
  const pieces = sampleTone(PCM_16_KHZ, 300, 0.2, 4040, 1010);
  const atMs = [1010, 2020, 3730, 4040];
  for (const [i, piece] of pieces.entries()) input.receive(piece, startMs + atMs[i]!);
  await vi.waitFor(() => expect(levels).toHaveLength(202));
  expect(faults).toEqual([]);
  input.close();
});

test('the last samples that a client sends to a room are not heard in the next one', async () => {
  const { input, faults } = openInput(() => true, {
    codec: 'pcm_s16le',
    rateHz: 48_000,
    channels: 1,
  });
  const levels: Record<string, number[]> = { one: [], other: [] };
  const sinkOf = (room: string) => (_packet: Buffer, _samples: number, level: number) =>
    void levels[room]!.push(level);
  input.attach(sinkOf('one'));
  const [loud] = pcmTone(440, 0.5, 20);
  const silence = Buffer.alloc(loud!.length);
  const startMs = performance.now();
  input.receive(Buffer.concat([loud!, loud!.subarray(0, 1500)]), startMs);
  await vi.waitFor(() => expect(levels.one).toHaveLength(1), { timeout: 10_000 });
  input.attach(undefined);
  input.attach(sinkOf('other'));
  for (let i = 0; i < 3; i += 1) input.receive(silence, performance.now() + i * 20);
  expect(levels.other).toEqual([127, 127, 127]);
  expect(faults).toEqual([]);
  input.close();
});
