import { expect, test } from 'vitest';
import type { MixEnginePool } from '../../../../src/audio/mixing/mix-engine-pool.ts';
import { RoomMixer } from '../../../../src/audio/mixing/room-mixer.ts';
import { HandClock } from '../../../support/simulated-room.ts';

/** One frame of CELT, 20 ms (RFC 6716 §3.1). */
const PAYLOAD = Buffer.from([0xf8, 1, 2, 3, 4]);

/** A room of which two speakers are mixed, and the number of its plans. */
function openRoom(speakers: number) {
  const state = { plans: 0, changes: 0 };
  const engine = { apply: () => (state.plans += 1), insert: () => {}, tick: () => {} };
  const clock = new HandClock();
  const mixer = new RoomMixer(
    { openRoom: () => engine } as unknown as MixEnginePool,
    clock,
    {
      activeSpeakers: { thresholdLevel: 65, holdMs: 500, maxMixed: 2 },
      jitterBuffer: { minMs: 5, maxMs: 200 },
    },
    () => (state.changes += 1),
  );
  const names = Array.from({ length: speakers }, (_, index) => `p${index}`);
  for (const [index, name] of names.entries()) mixer.addSpeaker(name, index + 1);
  const talk = (frame: number, audioLevel: number) => {
    const packet = { sequenceNumber: frame, timestamp: frame * 960, marker: false };
    for (const name of names) {
      mixer.receive(name, { ...packet, audioLevel, payload: PAYLOAD }, frame * 20);
    }
  };
  return { state, mixer, clock, talk };
}

test('a speaker that begins to talk, and is not mixed, is planned for with all others at the next tick', () => {
  const { state, mixer, clock, talk } = openRoom(50);
  talk(0, 20);
  expect(state).toEqual({ plans: 2, changes: 50 });
  expect(mixer.speaking()).toHaveLength(50);
  clock.tick(10);
  expect(state.plans).toBe(3);
  talk(1, 20);
  clock.tick(30);
  expect(state.plans).toBe(3);
});
