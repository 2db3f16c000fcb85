import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { SampleFormat } from '../../../src/audio/format.ts';
import { opusPacketSamples } from '../../../src/audio/opus-packet.ts';
import { findGlitches } from '../../support/glitches.ts';
import { seededRandom } from '../../support/random.ts';
import { type Arrival, type Heard, SimulatedRoom, streamOf } from '../../support/simulated-room.ts';
import { encodeOpus, joinSamples, sweep } from '../../support/sound.ts';

const OPUS = { codec: 'opus' } as const;
const PCM: SampleFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const AMPLITUDE = 0.3;
const DURATION_MS = 12_000;
/** The frequency tells what moment of the speech is heard. */
const [FROM_HZ, TO_HZ] = [400, 1600];

let codecs: Codecs;
let speech: Buffer[];
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
  speech = await encodeOpus(sweep([FROM_HZ, TO_HZ], AMPLITUDE, DURATION_MS));
});

/** Effects of a network on packets: drops some, and delays others. */
type Network = { lost?: number; delayMs?: (sentAtMs: number) => number };

function through({ lost = 0, delayMs = () => 0 }: Network, arrivals: Arrival[]): Arrival[] {
  const random = seededRandom(17);
  return arrivals
    .filter((_, i) => random() >= lost || i === 0)
    .map((arrival) => ({ ...arrival, atMs: arrival.atMs + delayMs(arrival.atMs) }));
}

/** Between 5 and 8 s. */
const isBadSpell = (atMs: number) => atMs >= 5000 && atMs < 8000;

function jitterOf(mostMs: number): (atMs: number) => number {
  const random = seededRandom(23);
  return () => random() * mostMs;
}

/** Packets of a stretch of 100 ms come at its end. */
const inBursts = (atMs: number) => (isBadSpell(atMs) ? 100 - (atMs % 100) : 0);

/** Delay of the heard audio behind the spoken audio in each 100 ms, found by its frequency. */
async function delaysMs({ frames, framesAtMs }: Heard): Promise<number[]> {
  const sound = await joinSamples(PCM, frames);
  const delays: number[] = [];
  for (let i = 10; i + 5 <= frames.length; i += 5) {
    const part = sound.subarray(i * 960, (i + 5) * 960);
    const saidHz = FROM_HZ + ((TO_HZ - FROM_HZ) * framesAtMs[i + 2]!) / DURATION_MS;
    const heardHz = frequencyOf(part);
    delays.push(((saidHz - heardHz) / (TO_HZ - FROM_HZ)) * DURATION_MS);
  }
  return delays;
}

/** By the times at which a sound rises through zero. */
function frequencyOf(sound: Float32Array): number {
  const risesAt: number[] = [];
  for (let i = 1; i < sound.length; i += 1) {
    const [before, now] = [sound[i - 1]!, sound[i]!];
    if (before < 0 && now >= 0) risesAt.push(i - now / (now - before));
  }
  return ((risesAt.length - 1) * 48_000) / (risesAt.at(-1)! - risesAt[0]!);
}

const levelDb = (sound: Float32Array) =>
  10 *
  Math.log10(
    (2 * sound.reduce((sum, sample) => sum + sample ** 2, 0)) / sound.length / AMPLITUDE ** 2,
  );

const median = (values: number[]) =>
  values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]!;

describe('a browser behind a bad network', () => {
  test.for<[string, Network, { madeUpMs: number; delayMs: number; gaps?: number }]>([
    ['a good network', {}, { madeUpMs: 0, delayMs: 40 }],
    ['5 % loss', { lost: 0.05 }, { madeUpMs: 600, delayMs: 60 }],
    ['10 % loss', { lost: 0.1 }, { madeUpMs: 1300, delayMs: 80 }],
    ['reordering', { delayMs: jitterOf(45) }, { madeUpMs: 150, delayMs: 130 }],
    // The first of them is longer than what may be made up: it falls silent, once.
    ['bursts of 100 ms', { delayMs: inBursts }, { madeUpMs: 120, delayMs: 160, gaps: 1 }],
    [
      '5 % loss in bursts of 100 ms',
      { lost: 0.05, delayMs: inBursts },
      { madeUpMs: 700, delayMs: 160, gaps: 1 },
    ],
  ])(
    '%s: heard, without a gap but where too much is missing, at its level, and soon',
    async ([, network, most], { annotate }) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', PCM);
      await room.play(through(network, streamOf('a', speech)));
      room.mixer.close();
      const sound = await joinSamples(PCM, heard.frames);
      const delays = await delaysMs(heard);
      const atTheEnd = median(delays.slice(-10));
      await annotate(
        `made up ${heard.concealedMs.toFixed(0)} ms of ${DURATION_MS}; delay ${median(delays).toFixed(0)} ms ` +
          `(most ${Math.max(...delays).toFixed(0)}, at the end ${atTheEnd.toFixed(0)})`,
      );
      const gaps = findGlitches(sound).filter(({ kind }) => kind === 'gap');
      expect(gaps.slice(most.gaps ?? 0)).toEqual([]);
      expect(Math.abs(levelDb(sound.subarray(9600)))).toBeLessThan(1);
      expect(heard.concealedMs).toBeLessThanOrEqual(most.madeUpMs);
      expect(Math.max(...delays)).toBeLessThan(most.delayMs);
      expect(atTheEnd).toBeLessThan(80);
    },
  );

  test('packets that come up to 4 ms sooner or later: nothing is made up', async () => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', PCM);
    await room.play(through({ delayMs: jitterOf(8) }, streamOf('a', speech)));
    room.mixer.close();
    expect(heard.frames.length * 20).toBeGreaterThan(DURATION_MS - 60);
    expect(heard.concealedMs).toBe(0);
  });

  // The bounds are what is made up today.
  test.for([
    [0, 0],
    [10, 0],
    [30, 20],
    [60, 60],
  ] as const)(
    'packets that come up to %i ms later: no more than %i ms are made up',
    async ([mostMs, concealedMs]) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', PCM);
      await room.play(through({ delayMs: jitterOf(mostMs) }, streamOf('a', speech)));
      room.mixer.close();
      expect(heard.frames.length * 20).toBeGreaterThan(DURATION_MS - 60);
      expect(heard.concealedMs).toBeLessThanOrEqual(concealedMs);
    },
  );

  test.for([0.05, 0.1])(
    '%f lost, forwarded: a frame for every 20 ms all the same',
    async (lost) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', OPUS);
      const arrivals = through({ lost }, streamOf('a', speech));
      await room.play(arrivals);
      room.mixer.close();
      const last = arrivals.at(-1)!.packet.sequenceNumber;
      expect(heard.frames).toHaveLength(last + 1);
      expect(heard.frames.every((frame) => opusPacketSamples(frame) === 960)).toBe(true);
      const stoodIn = heard.frames.filter((frame, i) => frame !== speech[i]);
      expect(stoodIn.length).toBe(last + 1 - arrivals.length);
      expect(stoodIn.every((frame) => frame.length === 1)).toBe(true);
      expect(heard.concealedMs).toBe(stoodIn.length * 20);
    },
  );

  test.for([
    [35, true],
    [80, false],
  ] as const)('forwarded, a packet that is %i ms late: heard: %s', async ([lateMs, isHeard]) => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', OPUS);
    const late = ({ packet, atMs }: Arrival) =>
      packet.sequenceNumber === 50 ? atMs + lateMs : atMs;
    const arrivals = streamOf('a', speech.slice(0, 100));
    await room.play(arrivals.map((arrival) => ({ ...arrival, atMs: late(arrival) })));
    room.mixer.close();
    expect(heard.frames).toHaveLength(100);
    expect(heard.frames[50] === speech[50]).toBe(isHeard);
    const waitedMs = heard.framesAtMs.map((atMs, i) => atMs - i * 20);
    // Until the tick after 40 ms from when it was missed.
    expect(Math.max(...waitedMs)).toBeLessThanOrEqual(80);
    expect(waitedMs.slice(55).every((ms) => ms === 0)).toBe(true);
  });

  test.for([600, 1000])(
    'forwarded, packets of an outage of %i ms come behind the first live ones: not heard',
    async (outageMs) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', OPUS);
      const backAtMs = 1000 + outageMs;
      const late = (atMs: number) =>
        atMs >= 1000 && atMs < backAtMs ? backAtMs + 50 + (atMs - 1000) / 100 : atMs;
      const arrivals = streamOf('a', speech.slice(0, 150));
      await room.play(arrivals.map((arrival) => ({ ...arrival, atMs: late(arrival.atMs) })));
      room.mixer.close();
      const indices = heard.frames.map((frame) => speech.indexOf(frame)).filter((i) => i >= 0);
      expect(indices).toEqual(arrivals.flatMap(({ atMs }, i) => (late(atMs) === atMs ? [i] : [])));
      expect(heard.concealedMs).toBe(0);
    },
  );
});

test.each([-300, -900])(
  'an encoder that begins anew, its numbers %i away and its timestamps later: a mix goes on within 40 ms',
  async (away) => {
    const room = new SimulatedRoom(codecs, ['a']);
    const heard = room.listen('x', PCM);
    const arrivals = streamOf('a', speech.slice(0, 200)).map((arrival, i): Arrival => {
      const { packet } = arrival;
      const isAnew = i >= 100;
      const sequenceNumber = 5000 + i + (isAnew ? away : 0);
      const timestamp = packet.timestamp + (isAnew ? 240_000 : 0);
      return { ...arrival, packet: { ...packet, sequenceNumber, timestamp } };
    });
    await room.play(arrivals);
    room.mixer.close();
    const gapsMs = heard.framesAtMs.slice(1).map((atMs, i) => atMs - heard.framesAtMs[i]!);
    expect(Math.max(...gapsMs)).toBeLessThanOrEqual(40);
    expect(heard.framesAtMs.at(-1)).toBeGreaterThanOrEqual(3960);
    expect(heard.concealedMs).toBeLessThanOrEqual(40);
  },
);

describe('a browser whose clock is wrong', () => {
  test.for([1500, -1500])(
    'by %i ppm for a minute: heard without a glitch, at its level, and no later in the end',
    { timeout: 60_000 },
    async (ppm, { annotate }) => {
      const room = new SimulatedRoom(codecs, ['a']);
      const heard = room.listen('x', PCM);
      const jitterMs = jitterOf(3);
      const minute = await encodeOpus(sweep([FROM_HZ, TO_HZ], AMPLITUDE, 60_000));
      const arrivals = streamOf('a', minute).map((arrival) => ({
        ...arrival,
        atMs: arrival.atMs * (1 - ppm / 1e6) + jitterMs(arrival.atMs),
      }));
      await room.play(arrivals);
      room.mixer.close();
      const sound = (await joinSamples(PCM, heard.frames)).subarray(9600);
      const saidMs = (60_000 * (FROM_HZ - frequencyOf(sound.subarray(-4800)))) / (FROM_HZ - TO_HZ);
      const delayMs = 60_000 - 50 - saidMs;
      await annotate(`made up ${heard.concealedMs} ms; ${delayMs.toFixed(0)} ms late in the end`);
      expect(findGlitches(sound)).toEqual([]);
      expect(Math.abs(levelDb(sound))).toBeLessThan(0.5);
      expect(Math.abs(sound.length / 48 - 60_000 * (1 - ppm / 1e6))).toBeLessThan(300);
      expect(Math.abs(delayMs)).toBeLessThan(80);
    },
  );
});
