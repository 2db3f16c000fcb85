import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { FrameClock } from '../../../../src/audio/clock.ts';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { MixEnginePool } from '../../../../src/audio/mixing/mix-engine-pool.ts';
import { RoomMixer } from '../../../../src/audio/mixing/room-mixer.ts';
import { encodeOpus, tone } from '../../../support/sound.ts';

/** A room on the real clock, whose timers are turned by hand. */

const SECONDS = 12;
const SETTINGS = { bitrateBps: 32_000, complexity: 0 };

let codecs: Codecs;
beforeAll(async () => {
  codecs = await loadCodecs(SETTINGS);
});
afterEach(() => {
  vi.useRealTimers();
});

const rethrow = (fault: unknown) => {
  throw fault;
};

test('speakers at three moments of the 20 ms: ticks move to suit them, frames come every 20 ms after that, and nothing is made up', async () => {
  const packets = await encodeOpus(tone(500, 0.3, 1000));
  const settle = () => new Promise((resolve) => realImmediate(resolve));
  const realImmediate = setImmediate;
  vi.useFakeTimers({
    toFake: ['setTimeout', 'clearTimeout', 'setImmediate', 'clearImmediate', 'performance'],
  });
  const clock = new FrameClock(rethrow);
  const pool = new MixEnginePool(0, codecs, SETTINGS, { onFault: rethrow, onThreadLost: rethrow });
  const mixer = new RoomMixer(
    pool,
    clock,
    {
      activeSpeakers: { thresholdLevel: 65, holdMs: 500, maxMixed: 8 },
      jitterBuffer: { minMs: 5, maxMs: 200 },
    },
    () => {},
  );
  // The first to talk decides the moment; with the others another one is best.
  const speakers = [0, 5, 10].map((phaseMs, i) => ({ peer: String(i), phaseMs, sent: 0 }));
  for (const [i, { peer }] of speakers.entries()) mixer.addSpeaker(peer, i + 1);
  const startMs = performance.now();
  const framesAtMs: number[] = [];
  let concealedSamples = 0;
  mixer.addListener({
    peer: 'x',
    format: { codec: 'pcm_s16le', rateHz: 48_000, channels: 1 },
    delivery: 'mix',
    volume: {},
    deliver: () => void framesAtMs.push(performance.now()),
    concealed: (samples) => (concealedSamples += samples),
  });
  for (let ms = 0; ms < SECONDS * 1000; ms += 1) {
    for (const [i, speaker] of speakers.entries()) {
      if (ms < i * 1000 || ms % 20 !== speaker.phaseMs) continue;
      const { peer, sent } = speaker;
      speaker.sent += 1;
      const payload = packets[sent % packets.length]!;
      const packet = { sequenceNumber: sent, timestamp: sent * 960, marker: false, payload };
      mixer.receive(peer, { ...packet, audioLevel: 20 }, performance.now());
    }
    vi.advanceTimersByTime(1);
    // Decoders open.
    if (ms % 20 === 0) await settle();
  }
  mixer.close();
  const steps = framesAtMs.slice(1).map((atMs, i) => Math.round(atMs - framesAtMs[i]!));
  const moves = steps.filter((stepMs) => stepMs !== 20);
  expect(moves.length).toBeGreaterThan(0);
  expect(moves.length).toBeLessThanOrEqual(3);
  expect(Math.max(...moves)).toBeLessThan(40);
  expect(concealedSamples).toBe(0);
  // 5 ms or little more after the last of the three.
  const momentMs = (framesAtMs.at(-1)! - startMs) % 20;
  expect(momentMs).toBeGreaterThanOrEqual(14);
  expect(momentMs).toBeLessThan(19);
  expect(vi.getTimerCount()).toBe(0);
});
