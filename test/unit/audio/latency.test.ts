import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../src/audio/format.ts';
import { seededRandom } from '../../support/random.ts';
import { SimulatedRoom, streamOf } from '../../support/simulated-room.ts';
import { decodeOpus, encodeOpus, joinSamples, tone } from '../../support/sound.ts';

/** From the packet that holds the beginning of a burst to the frame of the mix that does, in rooms whose speakers send at any phase. */

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
/** By then the ticks are where they suit all three, and the speakers have caught up with them. */
const FIRST_MS = 2500;
const DURATION_MS = 7500;
/** Moves of the ticks until they are where they suit all three. */
const MOST_MOVES = 4;
const [EVERY_MS, BURST_MS] = [600, 60];
const [QUIET, LOUD, ONSET] = [0.004, 0.4, 0.1];
const ROOMS = 6;
const NAMES = ['a', 'b', 'c'];
/** Senders' timers: most packets are up to 2 ms late, and one in fifty up to 5 ms. */
const JITTER_MS = 2;
const [RARE, RARE_JITTER_MS] = [0.02, 5];

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Quiet sound with a burst in it now and then. */
const burstsFrom = (firstMs: number) =>
  tone(500, 1, DURATION_MS).map((sample, i) => {
    const sinceMs = i / 48 - firstMs;
    const isBurst = sinceMs >= 0 && sinceMs % EVERY_MS < BURST_MS;
    return sample * (isBurst ? LOUD : QUIET);
  });

/** When bursts begin in a sound, in ms from its beginning. */
function onsetsMs(sound: Float32Array): number[] {
  const found: number[] = [];
  for (let i = 0; i < sound.length; i += 1) {
    if (Math.abs(sound[i]!) < ONSET) continue;
    found.push(i / 48);
    i += (BURST_MS + 100) * 48;
  }
  return found;
}

/** The times that bursts of three take whose packets come at phases that `random` chooses, by speaker. */
async function latenciesMs(format: AudioFormat, random: () => number) {
  const room = new SimulatedRoom(codecs, NAMES, 0, true);
  const heard = room.listen('x', format);
  const streams = await Promise.all(
    NAMES.map(async (name, i) => {
      const packets = await encodeOpus(burstsFrom(FIRST_MS + (i * EVERY_MS) / NAMES.length));
      const fromMs = random() * 20;
      const arrivals = streamOf(name, packets, { fromMs, audioLevel: 40 });
      const lateMs = () => random() * (random() < RARE ? RARE_JITTER_MS : JITTER_MS);
      const late = arrivals.map((it) => ({ ...it, atMs: it.atMs + lateMs() }));
      return { late, saidMs: onsetsMs(await decodeOpus(packets)).map((ms) => ms + fromMs) };
    }),
  );
  // Not to their ends, which come one by one.
  await room.play(
    ...streams.map(({ late }) => late.filter(({ atMs }) => atMs < DURATION_MS - 100)),
  );
  room.mixer.close();
  const { frames, framesAtMs } = heard;
  const sound =
    format.codec === 'opus' ? await decodeOpus(frames) : await joinSamples(format, frames);
  const heardMs = onsetsMs(sound).map((ms) => framesAtMs[Math.floor(ms / 20)]! + (ms % 20));
  expect(room.faults).toEqual([]);
  expect(heard.concealedMs).toBe(0);
  const moves = framesAtMs.filter(
    (atMs, i) => i > 0 && Math.abs(atMs - framesAtMs[i - 1]! - 20) > 0.01,
  );
  expect(moves.length).toBeLessThanOrEqual(MOST_MOVES);
  return streams.map(({ saidMs }) =>
    saidMs.map((ms) => heardMs.find((atMs) => atMs >= ms - 1)! - ms),
  );
}

const quantile = (values: number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.ceil(share * values.length) - 1]!;

describe.each([
  ['samples', PCM, 0],
  ['Opus', OPUS, 2.5],
] as [string, AudioFormat, number][])(
  'three speakers at any phase, heard as %s',
  (_, format, codecMs) => {
    test('a packet waits for its tick, and for nothing else; nothing is made up', async ({
      annotate,
    }) => {
      const random = seededRandom(29);
      const ofRooms: number[][][] = [];
      for (let i = 0; i < ROOMS; i += 1) ofRooms.push(await latenciesMs(format, random));
      const all = ofRooms.flat(2);
      const [p50, p99] = [quantile(all, 0.5), quantile(all, 0.99)];
      await annotate(`p50 ${p50.toFixed(1)} ms, p99 ${p99.toFixed(1)} ms of ${all.length}`);
      expect(all.length).toBeGreaterThan(ROOMS * NAMES.length * 7);
      expect(p50).toBeLessThan(15 + codecMs);
      expect(p99).toBeLessThan(28 + codecMs);
    });
  },
);
