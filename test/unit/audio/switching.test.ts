import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat, SampleFormat } from '../../../src/audio/format.ts';
import { findGlitches } from '../../support/glitches.ts';
import { type Arrival, type Heard, SimulatedRoom, streamOf } from '../../support/simulated-room.ts';
import {
  amplitudeOf,
  decodeOpus,
  encodeOpus,
  fade,
  joinSamples,
  opusTone,
  sweep,
  toDb,
  tone,
  toneIn,
} from '../../support/sound.ts';

const OPUS: AudioFormat = { codec: 'opus' };
const pcm = (rateHz: number): SampleFormat => ({ codec: 'pcm_s16le', rateHz, channels: 1 });

const AMPLITUDE = 0.25;
const SETTLED_SAMPLES = 9600;
/** 40 ms hold a whole number of periods of each tone, and 20 ms do not: a frame too many or too few turns it over. */
const WINDOW_SAMPLES = 1920;
const [FIRST_HZ, SECOND_HZ] = [525, 925];

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

const soundOf = (format: AudioFormat, { frames }: Heard) =>
  format.codec === 'opus' ? decodeOpus(frames) : joinSamples(format, frames);

/** Amplitude in dB against `AMPLITUDE`, and phase, of the first speaker's tone in each 40 ms. */
const course = (sound: Float32Array) =>
  Array.from({ length: Math.floor(sound.length / WINDOW_SAMPLES) }, (_, i) => {
    const window = sound.subarray(i * WINDOW_SAMPLES, (i + 1) * WINDOW_SAMPLES);
    const { amplitude, phase } = toneIn(window, FIRST_HZ);
    return { db: toDb(amplitude / AMPLITUDE), phase };
  });

describe('one speaker, two, and one again', () => {
  const formats: [string, AudioFormat, number][] = [
    ['Opus', OPUS, 1.5],
    ['PCM at 48 kHz', pcm(48_000), 0.5],
    ['PCM at 16 kHz', pcm(16_000), 0.5],
  ];

  /** The first speaks for 5 s, in packets of `frameMs`; the second from `fromMs` on for 1.2 s, and again a second after that. */
  async function listenToBoth(fromMs: number, frameMs = 20, lateMs = 0) {
    const room = new SimulatedRoom(codecs, ['a', 'b'], lateMs);
    const heard = formats.map(([name, format]) => room.listen(name, format));
    const [a, b] = [room.listen('a', OPUS), room.listen('b', OPUS)];
    const first = await encodeOpus(tone(FIRST_HZ, AMPLITUDE, 5040), frameMs);
    const second = await encodeOpus(fade(tone(SECOND_HZ, AMPLITUDE, 1200)));
    await room.play(
      streamOf('a', first),
      streamOf('b', second, { fromMs }),
      streamOf('b', second, { fromMs: fromMs + 2200 }),
    );
    room.mixer.close();
    expect(room.faults).toEqual([]);
    return { heard, a, b, first, second };
  }

  test.each([
    [20, 1000, 0],
    [20, 1003, 0],
    [20, 1009.5, 0],
    [20, 1011, 0],
    [20, 1017, 0],
    [20, 1017, 15],
    [20, 1003, 50],
    [2.5, 1000, 0],
    [5, 1000, 0],
    [10, 1003, 0],
    [40, 1017, 0],
    [60, 1000, 0],
    [60, 1037, 0],
  ])(
    'the first in packets of %f ms, the second from %f ms on, mixed %f ms late: no click, the first keeps its level and its phase',
    async (frameMs, fromMs, lateMs) => {
      const { heard } = await listenToBoth(fromMs, frameMs, lateMs);
      for (const [i, [, format, toleranceDb]] of formats.entries()) {
        const sound = await soundOf(format, heard[i]!);
        expect(sound.length / 48).toBeGreaterThan(4900);
        const settled = sound.subarray(SETTLED_SAMPLES);
        expect(findGlitches(settled)).toEqual([]);
        const windows = course(settled);
        const phases = windows.map(({ phase }) => phase - windows[0]!.phase);
        expect(Math.max(...windows.map(({ db }) => Math.abs(db)))).toBeLessThan(toleranceDb);
        expect(Math.max(...phases.map(Math.abs))).toBeLessThan(0.15);
        const second = amplitudeOf(settled.subarray(48_000, 72_000), SECOND_HZ);
        expect(Math.abs(toDb(second / AMPLITUDE))).toBeLessThan(toleranceDb);
      }
    },
  );

  test.each([1000, 1077])(
    'the first in packets of 120 ms, the second from %i ms on: no click, whatever is left out or made up',
    async (fromMs) => {
      const { heard } = await listenToBoth(fromMs, 120);
      for (const [i, [, format]] of formats.entries()) {
        const sound = await soundOf(format, heard[i]!);
        expect(sound.length / 48).toBeGreaterThan(4800);
        expect(findGlitches(sound.subarray(SETTLED_SAMPLES))).toEqual([]);
      }
    },
  );

  test('a listener that hears one of them alone is given every packet of it, once and in order', async () => {
    const { a, b, first, second } = await listenToBoth(1000);
    expect(b.frames).toEqual(first.slice(0, b.frames.length));
    expect(b.frames.length).toBeGreaterThan(first.length - 4);
    expect(a.frames).toEqual([...second, ...second]);
  });
});

describe('packets longer than 20 ms, of one whose frequency tells what moment is heard, heard as Opus', () => {
  const [fromHz, toHz, durationMs] = [400, 1600, 3000];
  const longMs = 6000;
  const sound = sweep([fromHz, toHz], AMPLITUDE, durationMs);

  /** The time by which a stretch of 100 ms is later than it was said. */
  function lateMs(heard: Float32Array, fromMs: number, ofMs = durationMs): number {
    const part = heard.subarray(fromMs * 48, (fromMs + 100) * 48);
    const saidMs = ((risingHz(part) - fromHz) / (toHz - fromHz)) * ofMs;
    return fromMs + 50 - saidMs;
  }

  const cases = [40, 60, 120].flatMap((packetMs) =>
    [1000, 1023, 1043, 1057].map((atMs): [number, number] => [packetMs, atMs]),
  );

  test.each(cases)(
    '%i ms: a second one begins at %i ms beside a listener to samples, and nothing is heard twice',
    async (packetMs, fromMs) => {
      const room = new SimulatedRoom(codecs, ['a', 'b']);
      room.listen('y', pcm(48_000));
      const heard = room.listen('x', OPUS);
      const second = await encodeOpus(fade(tone(SECOND_HZ, 0.02, 1000)));
      await room.play(
        streamOf('a', await encodeOpus(sound, packetMs)),
        streamOf('b', second, { fromMs }),
      );
      room.mixer.close();
      const played = await decodeOpus(heard.frames);
      expect(Math.abs(lateMs(played, 2600) - lateMs(played, 800))).toBeLessThan(12);
    },
  );

  test.each(cases)(
    '%i ms: a listener to samples comes at %i ms, and leaves again, and nothing is heard twice',
    async (packetMs, fromMs) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', OPUS);
      const arrivals = streamOf('a', await encodeOpus(sound, packetMs));
      const until = (ms: number) =>
        arrivals.splice(
          0,
          arrivals.findIndex(({ atMs }) => atMs >= ms),
        );
      await room.play(until(fromMs));
      const samples = room.listen('y', pcm(48_000));
      await room.play(until(fromMs + 800));
      room.mixer.removeListener(samples.listener);
      await room.play(arrivals);
      room.mixer.close();
      const played = await decodeOpus(heard.frames);
      expect(Math.abs(lateMs(played, 2600) - lateMs(played, 800))).toBeLessThan(12);
    },
  );

  test.each([60, 120])(
    '%i ms: a listener to samples stays until a pause has been awaited for too long, and nothing is left out',
    async (packetMs) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', OPUS);
      const arrivals = streamOf(
        'a',
        await encodeOpus(sweep([fromHz, toHz], AMPLITUDE, longMs), packetMs),
      );
      const until = (ms: number) =>
        arrivals.splice(
          0,
          arrivals.findIndex(({ atMs }) => atMs >= ms),
        );
      await room.play(until(1000));
      const samples = room.listen('y', pcm(48_000));
      await room.play(until(4830));
      room.mixer.removeListener(samples.listener);
      await room.play(arrivals);
      room.mixer.close();
      const played = await decodeOpus(heard.frames);
      const movedMs = lateMs(played, 5600, longMs) - lateMs(played, 800, longMs);
      expect(Math.abs(movedMs)).toBeLessThan(12);
    },
  );
});

test.each([1003, 1023, 1043, 1063])(
  'packets of 60 ms, and the mix moves to another thread at %i ms: it goes on where it was',
  async (atMs) => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', pcm(48_000));
    const arrivals = streamOf('a', await encodeOpus(tone(FIRST_HZ, AMPLITUDE, 2040), 60));
    const later = arrivals.filter((arrival) => arrival.atMs >= atMs);
    await room.play(arrivals.filter((arrival) => arrival.atMs < atMs));
    await room.passTo(atMs);
    room.moveMix();
    await room.play(later);
    room.mixer.close();
    const settled = (await joinSamples(pcm(48_000), heard.frames)).subarray(SETTLED_SAMPLES);
    expect(findGlitches(settled)).toEqual([]);
    const phases = course(settled).map(({ phase }) => phase);
    expect(Math.max(...phases.map((phase) => Math.abs(phase - phases[0]!)))).toBeLessThan(0.15);
  },
);

/** Returns the frequency of a sound by the times at which it rises through zero. */
function risingHz(sound: Float32Array): number {
  const risesAt: number[] = [];
  for (let i = 1; i < sound.length; i += 1) {
    const [before, now] = [sound[i - 1]!, sound[i]!];
    if (before < 0 && now >= 0) risesAt.push(i - now / (now - before));
  }
  return ((risesAt.length - 1) * 48_000) / (risesAt.at(-1)! - risesAt[0]!);
}

describe('mix-minus', () => {
  test.each([2, 3, 8])(
    '%i speakers: each hears the others, and nothing of itself',
    async (count) => {
      const speakers = Array.from({ length: count }, (_, i) => ({
        name: `speaker ${i}`,
        hz: 300 + 275 * i,
      }));
      const amplitude = 0.1;
      const room = new SimulatedRoom(
        codecs,
        speakers.map(({ name }) => name),
      );
      const heard = speakers.map(({ name }) => room.listen(name, pcm(48_000)));
      const streams = speakers.map(async ({ name, hz }) =>
        streamOf(name, await opusTone(hz, amplitude, 1500)),
      );
      await room.play(...(await Promise.all(streams)));
      room.mixer.close();
      for (const [i, own] of speakers.entries()) {
        const sound = await joinSamples(pcm(48_000), heard[i]!.frames);
        const settled = sound.subarray(SETTLED_SAMPLES, SETTLED_SAMPLES + 48_000);
        expect(settled).toHaveLength(48_000);
        const relativeDb = (hz: number) => toDb(amplitudeOf(settled, hz) / amplitude);
        const others = speakers.filter((speaker) => speaker !== own);
        expect(Math.max(...others.map(({ hz }) => Math.abs(relativeDb(hz))))).toBeLessThan(0.5);
        expect(relativeDb(own.hz)).toBeLessThan(-40);
      }
    },
  );
});

test('a listener that hears one alone changes its format in the middle of a sound: the sound goes on where it was', async () => {
  const room = new SimulatedRoom(codecs, ['a']);
  const before = room.listen('x', OPUS);
  const arrivals = streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 2000));
  await room.play(arrivals.slice(0, 50));
  room.mixer.removeListener(before.listener);
  const after = room.listen('x', pcm(48_000));
  await room.play(arrivals.slice(50));
  room.mixer.close();
  const sound = await joinSamples(pcm(48_000), after.frames);
  expect(sound.length).toBeGreaterThanOrEqual(48 * 920);
  // A period of the tone: who begins anew rises for longer.
  expect(Math.max(...sound.subarray(0, 96))).toBeGreaterThan(0.8 * AMPLITUDE);
  expect(findGlitches(sound)).toEqual([]);
});

test('a speaker that takes the place of one of the eight in the middle of its sound: no click', async () => {
  const quiet = Array.from({ length: 8 }, (_, i) => ({ name: `quiet ${i}`, hz: 300 + 41 * i * i }));
  const room = new SimulatedRoom(codecs, [...quiet.map(({ name }) => name), 'loud']);
  const heard = room.listen('x', pcm(48_000));
  const streams = await Promise.all(
    quiet.map(async ({ name, hz }) =>
      streamOf(name, await opusTone(hz, 0.01, 4000), { audioLevel: 40 }),
    ),
  );
  // The loud speaker is taken for quiet at first, so that the others are mixed.
  const loud = streamOf('loud', await opusTone(FIRST_HZ, AMPLITUDE, 4000)).map((arrival) => {
    const audioLevel = arrival.atMs < 1000 ? 60 : 15;
    return { ...arrival, packet: { ...arrival.packet, audioLevel } };
  });
  await room.play(...streams, loud);
  room.mixer.close();
  const sound = await joinSamples(pcm(48_000), heard.frames);
  expect(amplitudeOf(sound.subarray(0, 48_000), FIRST_HZ)).toBeLessThan(0.001);
  expect(amplitudeOf(sound.subarray(-48_000), FIRST_HZ)).toBeGreaterThan(0.2);
  const clicks = findGlitches(sound.subarray(SETTLED_SAMPLES)).filter(
    ({ kind }) => kind === 'click',
  );
  expect(clicks).toEqual([]);
});

test.each([4, 50])(
  'a third begins while what was mixed is on its way from another thread, %i ms late: nothing of it is lost',
  async (lateMs) => {
    const room = new SimulatedRoom(codecs, ['a', 'b', 'c'], lateMs);
    // Because of this one all are mixed, and what is forwarded keeps the pace of the mix.
    room.listen('x', pcm(48_000));
    const heard = room.listen('a', OPUS);
    const [a, b, c] = await Promise.all(
      [1300, FIRST_HZ, SECOND_HZ].map((hz) => opusTone(hz, AMPLITUDE, 2000)),
    );
    // The room ticks at 1010 ms, and what comes of it is there later.
    const third = streamOf('c', c!, { fromMs: 1011 });
    await room.play(streamOf('a', a!), streamOf('b', b!), third.slice(0, 40));
    room.mixer.close();
    const sound = await decodeOpus(heard.frames);
    expect(clicksIn(sound)).toEqual([]);
    const phases = course(sound.subarray(SETTLED_SAMPLES)).map(({ phase }) => phase);
    expect(Math.max(...phases.map((phase) => Math.abs(phase - phases[0]!)))).toBeLessThan(0.15);
  },
);

/** The last of a sound, against `AMPLITUDE`: close to 1 for who is cut in mid-word. */
const endOf = (sound: Float32Array) => Math.max(...sound.subarray(-96).map(Math.abs)) / AMPLITUDE;

const clicksIn = (sound: Float32Array) =>
  findGlitches(sound.subarray(SETTLED_SAMPLES)).filter(({ kind }) => kind === 'click');

test.each([4, 50])(
  'both stop at once, and what was mixed comes %i ms late from another thread: the end of it is heard',
  async (lateMs) => {
    const room = new SimulatedRoom(codecs, ['a', 'b'], lateMs);
    const heard = room.listen('x', pcm(48_000));
    const [a, b] = await Promise.all(
      [FIRST_HZ, SECOND_HZ].map((hz) => opusTone(hz, AMPLITUDE, 1000)),
    );
    await room.play(streamOf('a', a!), streamOf('b', b!));
    room.mixer.setMuted('a', true, room.nowMs);
    room.mixer.setMuted('b', true, room.nowMs);
    await room.pause(500);
    expect(room.isRunning).toBe(false);
    room.mixer.close();
    const sound = await soundOf(pcm(48_000), heard);
    expect(endOf(sound)).toBeLessThan(0.01);
  },
);

describe('louder and softer, in the middle of a sound', () => {
  const formats: [string, AudioFormat, number][] = [
    ['Opus', OPUS, 1.5],
    ['PCM at 48 kHz', pcm(48_000), 0.5],
    ['PCM at 16 kHz', pcm(16_000), 0.5],
  ];

  test.each(formats)(
    'in %s: no click, whoever else hears the same',
    async (_, format, withinDb) => {
      const room = new SimulatedRoom(codecs, ['a', 'b']);
      const [x, y] = [room.listen('x', format), room.listen('y', format)];
      const a = streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 3000));
      const b = streamOf('b', await opusTone(SECOND_HZ, AMPLITUDE, 3000));
      const volumes = [{ a: 0.25 }, { a: 0.25, b: 0 }, { b: 0 }, {}];
      for (let fromMs = 0; fromMs < 3000; fromMs += 600) {
        const during = [a, b].map((stream) =>
          stream.filter(({ atMs }) => atMs >= fromMs && atMs < fromMs + 600),
        );
        await room.play(...during);
        room.setVolume(x, volumes.shift() ?? {});
        // The listener hears it like this already.
        if (fromMs === 600) room.setVolume(y, { a: 0.25, b: 0 });
      }
      room.mixer.close();
      const sound = await soundOf(format, x);
      expect(sound.length / 48).toBeGreaterThan(2900);
      expect(clicksIn(sound)).toEqual([]);
      expect(clicksIn(await soundOf(format, y))).toEqual([]);
      const dbAt = (hz: number, ms: number) =>
        Math.max(-50, toDb(amplitudeOf(sound.subarray(ms * 48, (ms + 300) * 48), hz) / AMPLITUDE));
      const expected = [
        [0, 0],
        [toDb(0.25), 0],
        [toDb(0.25), -50],
        [0, -50],
        [0, 0],
      ];
      for (const [i, [first, second]] of expected.entries()) {
        expect(Math.abs(dbAt(FIRST_HZ, i * 600 + 250) - first!)).toBeLessThan(withinDb);
        expect(Math.abs(dbAt(SECOND_HZ, i * 600 + 250) - second!)).toBeLessThan(withinDb);
      }
    },
  );

  test.each([0, 4, 30, 70])(
    'several times between two ticks, whose mixes come out %i ms late: no click, and no frame too few',
    async (lateMs) => {
      const room = new SimulatedRoom(codecs, ['a', 'b'], lateMs);
      const [x, y] = [room.listen('x', pcm(48_000)), room.listen('y', pcm(48_000))];
      const a = streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 3000));
      const b = streamOf('b', await opusTone(SECOND_HZ, AMPLITUDE, 3000));
      const during = (stream: Arrival[], fromMs: number, untilMs: number) =>
        stream.filter(({ atMs }) => atMs >= fromMs && atMs < untilMs);
      // A tick is at 1010 ms, and so on.
      const changesAtMs = [1001, 1003, 1011, 1013, 1016, 1031, 1052];
      let lastMs = 0;
      for (const [i, atMs] of [...changesAtMs, 3000].entries()) {
        await room.play(during(a, lastMs, atMs), during(b, lastMs, atMs));
        await room.passTo(atMs);
        room.setVolume(x, { a: [0.1, 1, 0.5][i % 3]! });
        lastMs = atMs;
      }
      room.mixer.close();
      expect(x.frames.length).toBe(y.frames.length);
      expect(clicksIn(await joinSamples(pcm(48_000), x.frames))).toEqual([]);
    },
  );

  test('of a speaker that does not talk yet: it is never heard louder', async () => {
    const room = new SimulatedRoom(codecs, ['a', 'x']);
    const [x, y] = [room.listen('x', pcm(48_000)), room.listen('y', pcm(48_000))];
    const words = await opusTone(FIRST_HZ, AMPLITUDE, 1000);
    const own = streamOf('x', await opusTone(SECOND_HZ, AMPLITUDE, 1000));
    await room.play(own.slice(0, 25));
    room.setVolume(x, { a: 0 });
    await room.play(own.slice(25), streamOf('a', words, { fromMs: 600 }));
    room.mixer.close();
    expect(x.frames).toEqual([]);
    expect(y.frames.length).toBeGreaterThan(40);
  });

  test('a change while all are silent: the next words are as loud as requested, from the first on', async () => {
    const room = new SimulatedRoom(codecs, ['a']);
    const x = room.listen('x', pcm(48_000));
    const words = await opusTone(FIRST_HZ, AMPLITUDE, 500);
    await room.play(
      streamOf('a', words),
      streamOf('a', words.slice(0, 1), { fromMs: 2000, audioLevel: 127 }),
    );
    const before = x.frames.length;
    room.setVolume(x, { a: 0.1 });
    await room.play(streamOf('a', words, { fromMs: 3000 }));
    const sound = await joinSamples(pcm(48_000), x.frames.slice(before));
    expect(sound.length / 48).toBeGreaterThan(450);
    expect(Math.max(...sound.map(Math.abs))).toBeLessThan(0.15 * AMPLITUDE);
    room.mixer.close();
  });

  test.each<[string, AudioFormat]>([
    ['PCM', pcm(48_000)],
    ['Opus', OPUS],
  ])(
    'who alone talks is not to be heard any more (%s): he falls silent instead of being cut',
    async (_, format) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const x = room.listen('x', format);
      const a = streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 1600));
      await room.play(a.slice(0, 40));
      room.setVolume(x, { a: 0 });
      await room.play(a.slice(40));
      room.mixer.close();
      const sound = await soundOf(format, x);
      expect(sound.length / 48).toBeLessThan(880);
      // Opus keeps back its last 2.5 ms.
      expect(endOf(sound)).toBeLessThan(0.25);
    },
  );
});

describe('a talker vanishes in the middle of a word', () => {
  test('and was alone: it falls silent, and the clock stands still', async () => {
    const room = new SimulatedRoom(codecs, ['a']);
    const x = room.listen('x', pcm(48_000));
    await room.play(streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 800)));
    room.mixer.removeSpeaker('a');
    await room.pause(100);
    const sound = await joinSamples(pcm(48_000), x.frames);
    expect(sound.length / 48).toBeGreaterThan(760);
    expect(endOf(sound)).toBeLessThan(0.1);
    expect(clicksIn(sound)).toEqual([]);
    expect(room.isRunning).toBe(false);
    room.mixer.close();
  });

  test('and others go on: no click for those that hear them, one of them included', async () => {
    const room = new SimulatedRoom(codecs, ['a', 'b', 'c']);
    const heard = [room.listen('x', pcm(48_000)), room.listen('c', pcm(48_000))];
    const streamsOf = (peers: [string, number][]) =>
      Promise.all(
        peers.map(async ([peer, hz]) => streamOf(peer, await opusTone(hz, AMPLITUDE, 1600))),
      );
    const [a, ...others] = await streamsOf([
      ['a', FIRST_HZ],
      ['b', SECOND_HZ],
      ['c', 1700],
    ]);
    const half = (stream: Arrival[]) => stream.filter(({ atMs }) => atMs < 800);
    await room.play(half(a!), ...others.map(half));
    room.mixer.removeSpeaker('a');
    await room.play(...others.map((stream) => stream.filter(({ atMs }) => atMs >= 800)));
    room.mixer.close();
    for (const { frames } of heard) {
      const sound = await joinSamples(pcm(48_000), frames);
      expect(sound.length / 48).toBeGreaterThan(1500);
      expect(clicksIn(sound)).toEqual([]);
      expect(amplitudeOf(sound.subarray(-24_000), FIRST_HZ)).toBeLessThan(0.001);
    }
  });

  test('and is heard softly by one listener: it is no louder at its end', async () => {
    const room = new SimulatedRoom(codecs, ['a']);
    const x = room.listen('x', pcm(48_000));
    room.setVolume(x, { a: 0.1 });
    await room.play(streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 800)));
    room.mixer.removeSpeaker('a');
    await room.pause(100);
    room.mixer.close();
    const sound = await joinSamples(pcm(48_000), x.frames);
    expect(sound.length / 48).toBeGreaterThan(760);
    expect(Math.max(...sound.subarray(-4800).map(Math.abs))).toBeLessThan(0.11 * AMPLITUDE);
    expect(endOf(sound)).toBeLessThan(0.01);
  });
});

test.each([60, 80, 100, 200, 480])(
  'packets stop in the middle of a word, and go on %i ms later: no click at either end',
  async (gapMs) => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', pcm(48_000));
    const a = streamOf('a', await opusTone(FIRST_HZ, AMPLITUDE, 1600));
    await room.play(a.filter(({ atMs }) => atMs < 800 || atMs >= 800 + gapMs));
    room.mixer.close();
    const sound = await joinSamples(pcm(48_000), heard.frames);
    expect(sound.length / 48).toBeGreaterThan(1100);
    expect(clicksIn(sound)).toEqual([]);
  },
);

test.each([
  [20, 2],
  [20, 4],
  [20, 8],
  [10, 7],
  [10, 8],
  [2.5, 30],
  [40, 3],
  [120, 1],
])('of packets of %f ms %i are lost in the middle of a word: no click', async (packetMs, lost) => {
  const room = new SimulatedRoom(codecs, ['a']);
  const heard = room.listen('x', pcm(48_000));
  const bitrate = packetMs < 10 ? 128_000 : 48_000;
  const packets = await encodeOpus(tone(FIRST_HZ, AMPLITUDE, 2400), packetMs, { bitrate });
  const first = Math.round(1200 / packetMs);
  const a = streamOf('a', packets);
  await room.play(a.filter((_, i) => i < first || i >= first + lost));
  room.mixer.close();
  const sound = await joinSamples(pcm(48_000), heard.frames);
  expect(sound.length / 48).toBeGreaterThan(1800);
  expect(clicksIn(sound)).toEqual([]);
});

test('a speaker that loses its place among the eight does not hear its own last word', async () => {
  const quiet = Array.from({ length: 8 }, (_, i) => ({ name: `quiet ${i}`, hz: 300 + 100 * i }));
  const room = new SimulatedRoom(codecs, [...quiet.map(({ name }) => name), 'loud']);
  const loser = quiet[0]!;
  const [own, other] = [room.listen(loser.name, pcm(48_000)), room.listen('x', pcm(48_000))];
  const streams = await Promise.all(
    quiet.map(async ({ name, hz }) =>
      streamOf(name, await opusTone(hz, 0.01, 2000), { audioLevel: 40 }),
    ),
  );
  const loud = streamOf('loud', await opusTone(3000, 0.01, 900), { fromMs: 1000 });
  await room.play(...streams, loud);
  room.mixer.close();
  const levelsOf = async ({ frames }: Heard) => {
    const sound = await joinSamples(pcm(48_000), frames);
    return Array.from({ length: 40 }, (_, i) => {
      const window = sound.subarray(SETTLED_SAMPLES + i * 1920, SETTLED_SAMPLES + (i + 1) * 1920);
      return toDb(amplitudeOf(window, loser.hz) / 0.01);
    });
  };
  const heardByOther = await levelsOf(other);
  expect(heardByOther[0]).toBeGreaterThan(-1);
  expect(heardByOther.at(-1)).toBeLessThan(-40);
  expect(Math.max(...(await levelsOf(own)))).toBeLessThan(-40);
});

test.each([
  [500, 900],
  [440, 554],
  [500, 507],
])(
  'tones of %i and %i Hz at 0.7 of full scale: limited, at 20 dB or more over noise',
  async (...tonesHz) => {
    const room = new SimulatedRoom(codecs, ['a', 'b']);
    const heard = room.listen('x', pcm(48_000));
    const [a, b] = await Promise.all(tonesHz.map((hz) => opusTone(hz, 0.7, 1600)));
    await room.play(streamOf('a', a!), streamOf('b', b!));
    room.mixer.close();
    const sound = await joinSamples(pcm(48_000), heard.frames);
    const settled = sound.subarray(SETTLED_SAMPLES, SETTLED_SAMPLES + 48_000);
    const tones = tonesHz.map((hz) => ({ hz, ...toneIn(settled, hz) }));
    const noise = settled.map((sample, i) =>
      tones.reduce(
        (rest, { hz, amplitude, phase }) =>
          rest - amplitude * Math.cos((2 * Math.PI * hz * i) / 48_000 + phase),
        sample,
      ),
    );
    const signalPower = tones.reduce((sum, { amplitude }) => sum + amplitude ** 2 / 2, 0);
    const noisePower = noise.reduce((sum, sample) => sum + sample ** 2, 0) / noise.length;
    expect(10 * Math.log10(signalPower / noisePower)).toBeGreaterThan(20);
    expect(Math.abs(toDb(tones[0]!.amplitude / tones[1]!.amplitude))).toBeLessThan(0.5);
  },
);
