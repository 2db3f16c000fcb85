import { expect, test, vi } from 'vitest';
import { Framer } from '../../../../../packages/client/src/worklet/framer.ts';
import { Playout } from '../../../../../packages/client/src/worklet/playout.ts';
import { JitterGauge } from '../../../../../packages/client/src/worklet/jitter-gauge.ts';
import { seededRandom } from '../../../../support/random.ts';
import { amplitudeOf } from '../../../../support/sound.ts';

/** The client's jitter buffer, in virtual time. */

const SAMPLES_PER_MS = 48;
const BLOCK = 128;
const PACKET_MS = 20;
const PACKET = PACKET_MS * SAMPLES_PER_MS;
const HZ = 200;
/** Tone of which packets of 20 ms hold no whole periods. */
const UNEVEN_HZ = 137;

/** Two seconds of a tone: after the first, its whole number of periods begins again. */
const toneOf = (hz: number) =>
  Float32Array.from({ length: 96_000 }, (_, i) => Math.sin((2 * Math.PI * hz * i) / 48_000));

type Arrival = { atMs: number; ms: number; isLost?: boolean };

/** Sound of a sender that sends at `startMs`, and every `ms` from then on, each packet `delayMs(i)` later. */
const packets = (
  count: number,
  delayMs: (i: number) => number,
  startMs = 0,
  ms = PACKET_MS,
): Arrival[] => {
  let lastMs = 0;
  return Array.from({ length: count }, (_, i) => {
    lastMs = Math.max(lastMs, startMs + i * ms + delayMs(i)); // TCP keeps the order
    return { atMs: lastMs, ms };
  });
};

/**
 * Plays what comes, and returns what is heard. `drift`: how much faster the listener's clock is; `hurriedMs`: time from which the delay is
 * shortened quickly.
 */
function play(
  arrivals: Arrival[],
  totalMs: number,
  { drift = 0, hz = HZ, hurriedMs = Infinity } = {},
) {
  const playout = new Playout();
  const tone = toneOf(hz);
  const delaysMs: number[] = [];
  const heard = new Float32Array(Math.ceil((totalMs * SAMPLES_PER_MS) / BLOCK) * BLOCK);
  let [next, sent] = [0, 0];
  for (let at = 0; at < heard.length; at += BLOCK) {
    const nowMs = at / SAMPLES_PER_MS / (1 + drift);
    if (nowMs >= hurriedMs) playout.isHurried = true;
    if (nowMs >= delaysMs.length * 1000) delaysMs.push(playout.stats.delayMs);
    for (; next < arrivals.length && arrivals[next]!.atMs <= nowMs; next += 1) {
      const { ms, isLost } = arrivals[next]!;
      const [start, length] = [sent % 48_000, ms * SAMPLES_PER_MS];
      sent += length;
      if (isLost) playout.pushLost();
      else playout.push(tone.slice(start, start + length));
    }
    playout.read(heard.subarray(at, at + BLOCK));
  }
  return { heard, delaysMs, ...playout.stats };
}

/** Lateness of a packet that is sent at `sentMs`, if nothing passes for `forMs` from `fromMs` on. */
const heldMs = (sentMs: number, fromMs: number, forMs: number) =>
  sentMs >= fromMs && sentMs < fromMs + forMs ? fromMs + forMs - sentMs : 0;

/** Length of the stretches of 5 ms in which there is no sound, between two times, ms. */
function silenceMs(heard: Float32Array, fromMs: number, toMs: number): number {
  let silent = 0;
  for (let ms = fromMs; ms + 5 <= toMs; ms += 5) {
    const stretch = heard.subarray(ms * SAMPLES_PER_MS, (ms + 5) * SAMPLES_PER_MS);
    if (!stretch.some((sample) => Math.abs(sample) > 0.05)) silent += 5;
  }
  return silent;
}

/** The largest step from one sample to the next: of a clean tone of 200 Hz, 0.026, of one of 137 Hz, 0.018. */
function largestStep(heard: Float32Array): number {
  let largest = 0;
  for (let i = 1; i < heard.length; i += 1) {
    largest = Math.max(largest, Math.abs(heard[i]! - heard[i - 1]!));
  }
  return largest;
}

test('packets that come evenly are heard whole, after at most 60 ms', () => {
  const { heard, underruns, delayMs } = play(
    packets(500, () => 0),
    10_000,
  );
  expect(silenceMs(heard, 60, 9990)).toBe(0);
  expect(underruns).toBe(0);
  expect(delayMs).toBeLessThan(65);
  expect(largestStep(heard.subarray(60 * SAMPLES_PER_MS))).toBeLessThan(0.03);
});

test.each([10, 20, 60, 80, 100, 120])(
  'packets of %i ms, up to 15 ms late, are heard whole',
  (ms) => {
    const random = seededRandom(5);
    const { heard, underruns, delayMs } = play(
      packets(12_000 / ms, () => random() * 15, 0, ms),
      12_000,
    );
    expect(underruns).toBe(0);
    expect(silenceMs(heard, 200, 11_900)).toBe(0);
    expect(delayMs).toBeLessThan(70);
  },
);

test('packets that come up to 50 ms late are heard whole, once it is known', () => {
  const random = seededRandom(7);
  const delays = Array.from({ length: 6000 }, () => random() * 50);
  const arrivals = packets(6000, (i) => delays[i]!);
  const { heard, underruns, delayMs } = play(arrivals, 120_000);
  expect(underruns).toBeLessThanOrEqual(2);
  expect(underruns).toBe(play(arrivals.slice(0, 500), 10_000).underruns);
  expect(silenceMs(heard, 200, 119_900)).toBe(0);
  expect(delayMs).toBeLessThan(120);
});

test.each([
  ['are up to 20 ms late', (i: number) => (i * 7) % 21, 65],
  ['come evenly', () => 0, 65],
])('the first packets %s, soon after the player has started: no underrun', (_, delayMs, mostMs) => {
  for (let startMs = 0; startMs <= 80; startMs += 20) {
    const { heard, underruns, ...stats } = play(packets(500, delayMs, startMs), 10_000);
    expect(underruns).toBe(0);
    expect(silenceMs(heard, startMs + 90, 9950)).toBe(0);
    expect(stats.delayMs).toBeLessThan(mostMs);
  }
});

test.each([
  ['the join, when all that was held comes at once', 0, 0],
  ['the first second', 200, 1],
  ['a call', 10_000, 1],
])(
  'a stall of 300 ms in %s costs its time once, and the delay goes back within 8 s',
  (_, stallMs, most) => {
    const stalled = packets(1500, (i) => heldMs(i * PACKET_MS, stallMs, 300));
    const { heard, underruns, delaysMs } = play(stalled, 30_000);
    expect(underruns).toBe(most);
    const overMs = stallMs + 300;
    expect(delaysMs[Math.ceil(overMs / 1000) + 8]).toBeLessThan(100);
    expect(delaysMs.at(-1)).toBeLessThan(65);
    // It goes back by periods of the sound that are left out, not by cuts.
    expect(silenceMs(heard, overMs + 100, 29_900)).toBe(0);
    expect(largestStep(heard.subarray((overMs + 100) * SAMPLES_PER_MS))).toBeLessThan(0.05);
  },
);

test.each([
  [20, 380, 350],
  [20, 500, 250],
  // Audio does not wait for stalls that it could not outlast.
  [20, 700, 70],
  [20, 1000, 70],
  [10, 200, 150],
])(
  'with packets of %i ms, a stall of %i ms is one underrun, and the delay goes back within 6 s',
  (ms, stallMs, sixthSecondMs) => {
    const stalled = packets(10_000 / ms, (i) => heldMs(i * ms, 2500, stallMs), 0, ms);
    const { underruns, delaysMs } = play(stalled, 10_000);
    expect(underruns).toBe(1);
    expect(delaysMs[9]).toBeLessThan(110);
    expect(delaysMs[6]).toBeLessThan(sixthSecondMs);
  },
);

test('a stall of 3 s of which the gateway drops the end is an underrun, and a pause of 3 s is none', () => {
  const listen = (heldForMs: number) => {
    const held = packets(heldForMs / PACKET_MS, () => 0).map(() => ({ atMs: 6000, ms: PACKET_MS }));
    const arrivals = [...packets(150, () => 0), ...held, ...packets(100, () => 0, 6000)];
    return play(arrivals, 8000).underruns;
  };
  expect([600, 0].map(listen)).toEqual([1, 0]);
});

test('stalls of 380 ms that come every 20 s are waited for after two', () => {
  const stalls = packets(4500, (i) => heldMs((i * PACKET_MS) % 20_000, 10_000, 380));
  const { heard, underruns } = play(stalls, 90_000);
  expect(underruns).toBe(2);
  expect(silenceMs(heard, 40_000, 89_900)).toBe(0);
});

test('of stalls of 700 ms that come every 20 s, 400 ms are bridged after two', () => {
  const stalls = packets(2600, (i) => heldMs((i * PACKET_MS) % 20_000, 10_000, 700));
  const { heard } = play(stalls, 52_000);
  expect(silenceMs(heard, 40_000, 51_900)).toBeLessThan(300);
});

test('several stalls within the first seconds are forgotten as one is', () => {
  const join = packets(1500, (i) =>
    Math.max(...[100, 800, 2000].map((fromMs) => heldMs(i * PACKET_MS, fromMs, 200))),
  );
  const { underruns, delaysMs } = play(join, 30_000);
  expect(underruns).toBeLessThanOrEqual(3);
  expect(delaysMs[10]).toBeLessThan(100);
});

test.each([
  [4, 60],
  [20, 150],
  [60, 400],
])('stalls of 150 ms that come every %i s are waited for after a few', (everyS, seconds) => {
  const stalls = packets(seconds * 50, (i) =>
    heldMs((i * PACKET_MS) % (everyS * 1000), everyS * 500, 150),
  );
  const { underruns, delayMs } = play(stalls, seconds * 1000);
  expect(underruns).toBeLessThanOrEqual(6);
  expect(delayMs).toBeLessThan(200);
});

test('stalls of 150 ms that come every four minutes cost two underruns, and then none', () => {
  const stalls = packets(45_000, (i) => heldMs((i * PACKET_MS) % 240_000, 120_000, 150));
  const { underruns, delayMs } = play(stalls, 900_000);
  expect(underruns).toBe(2);
  expect(delayMs).toBeLessThan(200);
});

test('stalls that have come again, and come no more, are forgotten after ten minutes', () => {
  const stalled = packets(33_000, (i) =>
    Math.max(heldMs(i * PACKET_MS, 10_000, 150), heldMs(i * PACKET_MS, 40_000, 150)),
  );
  const { underruns, delaysMs } = play(stalled, 660_000);
  expect(underruns).toBe(2);
  expect(delaysMs[100]).toBeGreaterThan(120);
  expect(delaysMs.at(-1)).toBeLessThan(65);
});

test('stalls that have come again are forgotten after ten minutes in a room in which somebody speaks for a fifth of the time', () => {
  const words = Array.from({ length: 152 }, (_, word) =>
    packets(
      50,
      (i) => {
        const sentMs = word * 5000 + i * PACKET_MS;
        return Math.max(heldMs(sentMs, 10_400, 150), heldMs(sentMs, 130_400, 150));
      },
      word * 5000,
    ),
  ).flat();
  const { delaysMs } = play(words, 760_000);
  expect(delaysMs[500]).toBeGreaterThan(120);
  expect(delaysMs.at(-1)).toBeLessThan(65);
});

test('the amount of audio that must wait, which is read several hundred times a second, is read without an array', () => {
  const gauge = new JitterGauge();
  for (let now = PACKET; now < 600_000 * SAMPLES_PER_MS; now += PACKET) gauge.note(now, PACKET);
  const [slice, map] = [vi.spyOn(Array.prototype, 'slice'), vi.spyOn(Array.prototype, 'map')];
  const { target } = gauge;
  const made = slice.mock.calls.length + map.mock.calls.length;
  slice.mockRestore();
  map.mockRestore();
  expect(target).toBe(40 * SAMPLES_PER_MS);
  expect(made).toBe(0);
});

test('pauses of a speaker are no underruns, and do not make it wait longer', () => {
  const words = Array.from({ length: 20 }, (_, word) => packets(50, () => 0, word * 1730)).flat();
  const { underruns, delayMs } = play(words, 35_000);
  expect(underruns).toBe(0);
  expect(delayMs).toBeLessThan(65);
});

test('lost packets are made up: no gap, no click', () => {
  const arrivals = packets(500, () => 0).map((arrival, i) => ({
    ...arrival,
    isLost: i % 25 === 24,
  }));
  const { heard, concealed } = play(arrivals, 10_000);
  expect(concealed).toBe(20);
  expect(silenceMs(heard, 60, 9900)).toBe(0);
  expect(largestStep(heard.subarray(60 * SAMPLES_PER_MS, 9900 * SAMPLES_PER_MS))).toBeLessThan(
    0.15,
  );
});

test.each([1, 2, 3, 4])('a packet that comes after %i lost ones begins without a click', (lost) => {
  const arrivals = packets(60, () => 0).map((arrival, i) => ({
    ...arrival,
    isLost: i >= 30 && i < 30 + lost,
  }));
  const { heard } = play(arrivals, 1150, { hz: UNEVEN_HZ });
  expect(largestStep(heard.subarray(300 * SAMPLES_PER_MS))).toBeLessThan(0.05);
});

test.each([150, 300, 700, 1000, 1500])(
  'a stall of %i ms begins and ends without a click',
  (stallMs) => {
    const stalled = packets(250, (i) => heldMs(i * PACKET_MS, 1000, stallMs));
    const { heard } = play(stalled, 5000, { hz: UNEVEN_HZ });
    expect(largestStep(heard)).toBeLessThan(0.05);
  },
);

test.each([300e-6, -300e-6])(
  'a clock that is off by %f for 5 minutes makes no gap and no delay',
  (drift) => {
    const { heard, underruns, delayMs } = play(
      packets(15_000, () => 0),
      300_000,
      { drift },
    );
    expect(underruns).toBe(0);
    expect(silenceMs(heard, 100, 299_000)).toBe(0);
    expect(delayMs).toBeLessThan(110);
  },
);

test('a clock that is fast by 150 ppm causes no underrun in 200 s of packets that are up to 15 ms late', () => {
  const random = seededRandom(3);
  const arrivals = packets(10_000, () => random() * 15);
  const { underruns, delayMs } = play(arrivals, 200_000, { drift: 150e-6 });
  expect(underruns).toBe(0);
  expect(delayMs).toBeLessThan(50);
});

test('audio that ends in the middle of a word fades out without a click', () => {
  for (let count = 30; count < 38; count += 1) {
    const { heard } = play(
      packets(count, () => 0),
      1000,
      { hz: UNEVEN_HZ },
    );
    expect(largestStep(heard.subarray(300 * SAMPLES_PER_MS))).toBeLessThan(0.05);
  }
});

test.each([
  ['that has had no stall', 0, 10],
  ['0.8 s after a stall of 100 ms', 100, 70],
  ['0.6 s after a stall of 300 ms', 300, 120],
])('in a hurry, audio %s is heard to its end sooner', (_, stallMs, soonerMs) => {
  const random = seededRandom(4);
  // Up to the moment at which another transport takes over, 300 ms after it is connected.
  const arrivals = packets(115, (i) => random() * 5 + heldMs(i * PACKET_MS, 1100, stallMs));
  const [unhurried, hurried] = [Infinity, 2000].map((hurriedMs) =>
    play(arrivals, 3000, { hz: UNEVEN_HZ, hurriedMs }),
  );
  const endMs = (heard: Float32Array) =>
    heard.findLastIndex((sample) => Math.abs(sample) > 0.05) / SAMPLES_PER_MS;
  expect(endMs(hurried!.heard)).toBeLessThan(endMs(unhurried!.heard) - soonerMs);
  expect(hurried!.underruns).toBe(unhurried!.underruns);
  expect(silenceMs(hurried!.heard, 2000, 2300)).toBe(0);
  expect(largestStep(hurried!.heard.subarray(1500 * SAMPLES_PER_MS))).toBeLessThan(0.05);
});

test('silence before anything has come, and after all has been heard', () => {
  const { heard } = play(
    packets(5, () => 0, 500),
    2000,
  );
  expect(silenceMs(heard, 0, 500)).toBe(500);
  expect(silenceMs(heard, 1000, 2000)).toBe(1000);
});

/** Frames of a second of a tone from a microphone of a rate; it fades in within 10 ms. */
function framesOf(rateHz: number, hz: number): Float32Array[] {
  const frames: Float32Array[] = [];
  const framer = new Framer(rateHz, (frame) => frames.push(frame));
  for (let at = 0; at < rateHz; at += BLOCK) {
    framer.push(
      Float32Array.from({ length: BLOCK }, (_, i) => {
        const seconds = (at + i) / rateHz;
        return Math.min(1, seconds / 0.01) * Math.sin(2 * Math.PI * hz * seconds);
      }),
    );
  }
  return frames;
}

const joined = (frames: Float32Array[]) => Float32Array.from(frames.flatMap((frame) => [...frame]));

test.each([48_000, 44_100, 16_000])(
  'a microphone at %i Hz: frames of 20 ms at 48 kHz',
  (rateHz) => {
    const frames = framesOf(rateHz, HZ);
    expect(frames.length).toBeGreaterThanOrEqual(49);
    const sound = joined(frames);
    const crossings = sound.filter((sample, i) => sample >= 0 && sound[i - 1]! < 0).length;
    expect(Math.abs(crossings / (sound.length / 48_000) - HZ)).toBeLessThan(3);
    expect(largestStep(sound)).toBeLessThan(0.03);
  },
);

test.each([
  [8000, 3000, 5000],
  [16_000, 6000, 10_000],
  [44_100, 10_000, 13_900],
])(
  'a microphone at %i Hz: a tone of %i Hz is heard alone, without one of %i Hz',
  (rateHz, hz, imageHz) => {
    // Whole periods of all tones.
    const sound = joined(framesOf(rateHz, hz)).subarray(4800, 4800 + 9600);
    expect(amplitudeOf(sound, hz)).toBeCloseTo(1, 1);
    expect(amplitudeOf(sound, imageHz)).toBeLessThan(0.01);
  },
);

test.each([96_000, 192_000])('a microphone at %i Hz: a tone of 30 kHz is not heard', (rateHz) => {
  const sound = joined(framesOf(rateHz, 30_000)).subarray(4800, 4800 + 9600);
  expect(amplitudeOf(sound, 18_000)).toBeLessThan(0.01);
});
