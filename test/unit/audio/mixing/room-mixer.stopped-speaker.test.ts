import { beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import type { AudioFormat } from '../../../../src/audio/format.ts';
import { type Arrival, SimulatedRoom, streamOf } from '../../../support/simulated-room.ts';
import { amplitudeOf, decodeOpus, encodeOpus, opusTone, tone } from '../../../support/sound.ts';

/** A speaker that stops sending, as with push-to-talk, and counts as talking for half a second more. */

const OPUS: AudioFormat = { codec: 'opus' };
const PCM: AudioFormat = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 };
const [STOPS_HZ, GOES_ON_HZ] = [440, 1000];
const STOPS_AT_MS = 3000;
/** Every fifth packet is late by the jitter. */
const LATE_EVERY = 5;

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Returns the packets of the speaker that stops; each arrives after its end. */
async function stopping(packetMs: number, jitterMs: number): Promise<Arrival[]> {
  const packets = await encodeOpus(tone(STOPS_HZ, 0.05, STOPS_AT_MS), packetMs);
  return streamOf('stops', packets, { fromMs: packetMs, audioLevel: 28 }).map((arrival, i) => {
    const isLate = i % LATE_EVERY === LATE_EVERY - 1;
    return { ...arrival, atMs: arrival.atMs + (isLate ? jitterMs : 0) };
  });
}

const cases: [number, number, number][] = [
  [20, 0, 100],
  [20, 0, 400],
  [20, 60, 200],
  [20, 60, 400],
  [120, 0, 150],
  [120, 0, 250],
];

describe.each(cases)(
  'packets of %i ms, with a jitter of %i ms; %i ms after the last one',
  (packetMs, jitterMs, afterMs) => {
    test('another speaker begins: its word does not wait for a further packet', async () => {
      const room = new SimulatedRoom(codecs, ['stops', 'begins'], 0, true);
      const heard = room.listen('x', OPUS);
      const stops = await stopping(packetMs, jitterMs);
      const fromMs = Math.max(...stops.map(({ atMs }) => atMs)) + afterMs;
      const begins = streamOf('begins', await opusTone(GOES_ON_HZ, 0.3, 1000), { fromMs });
      await room.play(stops, begins);
      room.mixer.close();
      const first = heard.framesAtMs.findIndex((atMs) => atMs >= fromMs);
      expect(heard.framesAtMs[first]! - fromMs).toBeLessThanOrEqual(20);
      const sound = await decodeOpus(heard.frames.slice(first));
      expect(amplitudeOf(sound.subarray(960, 1920), GOES_ON_HZ)).toBeGreaterThan(0.2);
    });

    test('the room moves to another thread: no listener misses a frame', async () => {
      const room = new SimulatedRoom(codecs, ['stops', 'goes on']);
      const heard = room.listen('x', PCM);
      const stops = await stopping(packetMs, jitterMs);
      const moveAtMs = Math.max(...stops.map(({ atMs }) => atMs)) + afterMs;
      const goesOn = streamOf('goes on', await opusTone(GOES_ON_HZ, 0.3, 4000));
      await room.play(
        stops,
        goesOn.filter(({ atMs }) => atMs < moveAtMs),
      );
      await room.passTo(moveAtMs);
      room.moveMix();
      await room.play(goesOn.filter(({ atMs }) => atMs >= moveAtMs));
      room.mixer.close();
      const gapsMs = heard.framesAtMs.slice(1).map((atMs, i) => atMs - heard.framesAtMs[i]!);
      expect(Math.max(...gapsMs)).toBe(20);
    });
  },
);
