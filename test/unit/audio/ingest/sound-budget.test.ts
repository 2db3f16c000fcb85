import { beforeAll, describe, expect, test, vi } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { DeclaredFormat, SampleFormat } from '../../../../src/audio/format.ts';
import { AT_ONCE } from '../../../../src/audio/ingest/held-audio.ts';
import { SoundBudget } from '../../../../src/audio/ingest/sound-budget.ts';
import { counters } from '../../../../src/counters.ts';
import { ClientInput } from '../../../../src/session/client-input.ts';
import { cutInto, readFixture } from '../../../support/fixtures.ts';
import { oggOpus } from '../../../support/containers.ts';
import { encodeOpus, pcmTone, tone } from '../../../support/sound.ts';
import { wavFile } from '../../../support/wav.ts';

describe('admit()', () => {
  test('12 s at once, and then 1.25 s each second', () => {
    const sound = new SoundBudget();
    for (let s = 0; s < 12; s += 1) expect(sound.admit(1, 5000)).toBe(true);
    expect(sound.admit(0.02, 5000)).toBe(false);
    expect(sound.admit(1.25, 5999)).toBe(false);
    expect(sound.admit(1.25, 6000)).toBe(true);
    expect(sound.admit(0.02, 6000)).toBe(false);
    for (let s = 0; s < 12; s += 1) expect(sound.admit(1, 60_000)).toBe(true);
    expect(sound.admit(0.02, 60_000)).toBe(false);
  });

  test('counts what is not covered, which costs nothing', () => {
    const sound = new SoundBudget();
    const before = counters.dropped.too_fast;
    expect([sound.admit(12.5, 0), sound.admit(11, 0), sound.admit(2, 0)]).toEqual([
      false,
      true,
      false,
    ]);
    expect(sound.admit(1, 0)).toBe(true);
    expect(counters.dropped.too_fast - before).toBe(2);
  });

  test('tells how much sound is not covered, however much is charged at once', () => {
    const uncoveredS: number[] = [];
    const sound = new SoundBudget((seconds) => uncoveredS.push(seconds));
    expect(sound.admit(0.12, 0, 11.5)).toBe(true);
    expect([sound.admit(0.12, 0, 1), sound.admit(0.12, 0)]).toEqual([false, true]);
    sound.admitPart(2, 0);
    expect(uncoveredS).toEqual([0.12, expect.closeTo(1.62, 9)]);
  });

  test('no sound is always covered', () => {
    const sound = new SoundBudget();
    expect([sound.admit(0, 0), sound.admit(12, 0), sound.admit(0, 0)]).toEqual([true, true, true]);
  });

  test('earns nothing by a time that goes back', () => {
    const sound = new SoundBudget();
    expect(sound.admit(12, 10_000)).toBe(true);
    expect(sound.admit(1, 0)).toBe(false);
    expect(sound.admit(1, 10_000)).toBe(false);
    expect(sound.admit(1, 10_800)).toBe(true);
  });
});

describe('admitPart()', () => {
  test('all that is covered, or as many frames of 20 ms', () => {
    const sound = new SoundBudget();
    expect(sound.admitPart(10.001, 0)).toBe(10.001);
    expect(sound.admitPart(8, 0)).toBeCloseTo(1.98, 9);
    expect(sound.admitPart(0.02, 0)).toBe(0);
    expect(sound.admitPart(0.01, 0)).toBe(0.01);
  });

  test('a client that sends twice as fast as real time is heard in whole messages', () => {
    const sound = new SoundBudget();
    const admitted = Array.from({ length: 10_000 }, (_, i) => sound.admitPart(0.02, i * 10));
    expect(new Set(admitted)).toEqual(new Set([0, 0.02]));
    const seconds = admitted.reduce((sum, each) => sum + each, 0);
    expect(seconds).toBeGreaterThan(12 + 1.24 * 100);
    expect(seconds).toBeLessThanOrEqual(12 + 1.25 * 100);
  });
});

test('overMs: the time since sound has been beyond the budget, until a second of it is available', () => {
  const sound = new SoundBudget();
  sound.admit(12, 1000);
  expect(sound.overMs).toBe(0);
  sound.admit(1, 1200);
  sound.admit(1, 1500);
  expect(sound.overMs).toBe(300);
  expect(sound.admit(0.5, 1600)).toBe(true);
  expect(sound.overMs).toBe(400);
  sound.admit(0.02, 3000);
  expect(sound.overMs).toBe(0);
});

describe('a client that declares its format anew', () => {
  const PCM: SampleFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
  const FORMATS: [string, DeclaredFormat, () => Promise<Buffer[]>][] = [
    ['samples', PCM, async () => samples()],
    [
      'WAVE',
      { codec: 'wav' },
      async () => cutInto(wavFile(PCM, Buffer.concat(samples())), [20_000]),
    ],
    ['Opus', { codec: 'opus' }, opus],
    ['Ogg Opus', { codec: 'ogg_opus' }, async () => oggOpus(await opus(), 20)],
    [
      'MP3',
      { codec: 'mp3' },
      async () => cutInto(Buffer.concat(Array<Buffer>(4).fill(readFixture('speech.mp3'))), [5000]),
    ],
  ];
  const samples = () => pcmTone(440, 0.5, 10_000);
  async function opus() {
    return encodeOpus(tone(440, 0.5, 10_000));
  }
  const ROUNDS = 3;
  /** Maximum packets: 12 s, and what is earned in a second after each round. */
  const MAX_PACKETS = (12 + ROUNDS * 1.25) * 50;

  let codecs: Codecs;
  beforeAll(async () => {
    codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 0 });
  });

  /** Opens the input of a client, and collects its faults. */
  function openInput(declared: DeclaredFormat) {
    const faults: unknown[] = [];
    const input = new ClientInput({ declared }, codecs, AT_ONCE, {
      isJoining: () => false,
      onDetected: () => {},
      onOpaque: () => {},
      onUncovered: () => {},
      onMismatch: (observed) => faults.push(observed),
      onFault: (fault) => faults.push(fault),
    });
    return { input, faults };
  }

  test.each(FORMATS)('%s: has no other 12 s', async (_name, declared, make) => {
    const messages = await make();
    let [packets, heardUntilMs] = [0, -Infinity];
    const { input, faults } = openInput(declared);
    input.attach((_packet, _samples, _level, atMs) => {
      packets += 1;
      heardUntilMs = atMs;
    });
    const startMs = performance.now();
    for (let round = 0; round < ROUNDS; round += 1) {
      const atMs = startMs + round * 1000;
      for (const message of messages) input.receive(message, atMs);
      // Sound may be decoded in a thread. Sound of a second later is heard after all of it.
      for (const message of messages.slice(0, 5)) input.receive(message, atMs + 1000);
      const isHeard = () => expect(heardUntilMs).toBe(atMs + 1000);
      await vi.waitFor(isHeard, { timeout: 10_000 });
      expect(packets).toBeGreaterThan(9.5 * 50);
      input.reopen({ declared });
    }
    expect(faults).toEqual([]);
    expect(packets).toBeGreaterThan(11 * 50);
    expect(packets).toBeLessThanOrEqual(MAX_PACKETS);
    input.close();
  });

  test('opens no more than 20 encoders for compressed sound at once', async () => {
    const declared = { codec: 'mp3' } as const;
    const said = readFixture('speech.mp3').subarray(0, 3000);
    let packets = 0;
    const { input, faults } = openInput(declared);
    input.attach(() => void (packets += 1));
    const atMs = performance.now();
    let opened = 0;
    for (; opened < 30 && faults.length === 0; opened += 1) {
      const before = packets;
      input.receive(said, atMs);
      const isDone = () => expect(packets > before || faults.length > 0).toBe(true);
      await vi.waitFor(isDone, { interval: 5 });
      input.reopen({ declared });
    }
    expect(faults).toEqual([expect.objectContaining({ code: 'rate_limited' })]);
    expect(opened).toBe(21);
    input.close();
  });
});
