import { expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import type { MixEngine } from '../../../src/audio/mixing/mix-engine.ts';
import type { MixEnginePool } from '../../../src/audio/mixing/mix-engine-pool.ts';
import { RoomMixer } from '../../../src/audio/mixing/room-mixer.ts';
import { Echo, ECHO_PEER, type EchoParts } from '../../../src/rooms/echo.ts';
import { HandClock } from '../../support/simulated-room.ts';

test('a pause is echoed as a pause: the echo talks no longer than its peer', () => {
  vi.useFakeTimers({ toFake: ['performance'] });
  onTestFinished(() => void vi.useRealTimers());
  const nothing = () => {};
  const engine: MixEngine = { apply: nothing, insert: nothing, tick: nothing, close: nothing };
  const engines = { openRoom: () => engine } as unknown as MixEnginePool;
  const clock = new HandClock();
  const activeSpeakers = { thresholdLevel: 50, holdMs: 500, maxMixed: 8 };
  const settings = { activeSpeakers, jitterBuffer: { minMs: 5, maxMs: 200 } };
  const mixer = new RoomMixer(engines, clock, settings, nothing);
  const received = vi.spyOn(mixer, 'receive');
  const uplinkTimings = { ...DEFAULT_TIMINGS.budgets, ...DEFAULT_TIMINGS.mediaWorkers };
  const parts = { mixer, clock, route: { isOpen: false }, uplinkTimings };
  const echo = new Echo({ ...parts, onProducer: nothing } as unknown as EchoParts, 1);
  mixer.addSpeaker('ann', 1);
  const said = Array.from({ length: 100 }, (_, i) => (i < 25 ? 20 : 90));
  const talkedFor = new Map<string, number>();
  for (let i = 0; i < 200; i += 1) {
    const audioLevel = said[i];
    if (audioLevel !== undefined) {
      const payload = Buffer.of(0xf8, i, 2);
      const numbers = { sequenceNumber: i, timestamp: i * 960, marker: i === 0 };
      mixer.receive('ann', { ...numbers, audioLevel, payload }, performance.now());
    }
    vi.advanceTimersByTime(20);
    clock.tick(performance.now());
    for (const { peer } of mixer.speaking()) talkedFor.set(peer, (talkedFor.get(peer) ?? 0) + 20);
  }
  const echoed = received.mock.calls.filter(([peer]) => peer === ECHO_PEER);
  expect(echoed.map(([, { audioLevel }]) => audioLevel)).toEqual(said);
  expect(talkedFor.get('ann')).toBeGreaterThan(500);
  expect(Math.abs(talkedFor.get(ECHO_PEER)! - talkedFor.get('ann')!)).toBeLessThanOrEqual(40);
  echo.close();
  mixer.close();
});
