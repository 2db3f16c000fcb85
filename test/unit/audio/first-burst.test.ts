import { beforeAll, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../src/audio/codecs.ts';
import { counters } from '../../../src/counters.ts';
import { SimulatedRoom, soundOf, streamOf } from '../../support/simulated-room.ts';
import { encodeOpus, peakHz, sweep } from '../../support/sound.ts';

/** Another node holds the first packets of a speaker until this one is ready, and then sends them at once. */

const SOUND_MS = 3000;
const FROM_HZ = 300;
const TO_HZ = 1800;
const WINDOW_SAMPLES = 1920;

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs({ bitrateBps: 48_000, complexity: 5 });
});

/** Returns the moment of the rising tone that is heard at a sample, ms. */
function momentIn(sound: Float32Array, at: number): number {
  const hz = peakHz(sound.subarray(at, at + WINDOW_SAMPLES));
  return ((hz - FROM_HZ) / (TO_HZ - FROM_HZ)) * SOUND_MS - WINDOW_SAMPLES / 96;
}

test.each([[100], [200], [300], [400]])(
  'held for %i ms: a mix as PCM begins with the first sound, has all of it, and is no later soon',
  async (heldMs) => {
    const room = new SimulatedRoom(codecs, ['a']);
    const format = { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 } as const;
    const heard = room.listen('x', format);
    const droppedBefore = counters.dropped.late;
    const said = streamOf('a', await encodeOpus(sweep([FROM_HZ, TO_HZ], 0.3, SOUND_MS), 20));
    await room.play(said.map((arrival) => ({ ...arrival, atMs: Math.max(arrival.atMs, heldMs) })));
    await room.pause(1000);
    room.mixer.close();
    expect(counters.dropped.late).toBe(droppedBefore);
    expect(heard.framesAtMs[0]).toBeLessThanOrEqual(heldMs + 40);
    const pieces = await soundOf(codecs, heard);
    expect(pieces).toHaveLength(1);
    const { sound } = pieces[0]!;
    const isLoud = (value: number) => Math.abs(value) > 0.15;
    const from = sound.findIndex(isLoud);
    const to = sound.findLastIndex(isLoud) + 1;
    expect(Math.abs(momentIn(sound, from))).toBeLessThan(20);
    const restMs = SOUND_MS - momentIn(sound, to - WINDOW_SAMPLES);
    expect(Math.abs(restMs - WINDOW_SAMPLES / 48)).toBeLessThan(20);
    // Playback has caught up two seconds after the first packet.
    const at = from + 2000 * 48;
    const behindMs = heldMs + 2000 - momentIn(sound, at);
    expect(behindMs).toBeLessThan(60);
  },
);
