import { expect, test } from 'vitest';
import { FRAME_SAMPLES } from '../../src/audio/format.ts';
import { MixThread } from '../../src/audio/mixing/mix-thread.ts';
import { eventually } from '../support/gateway.ts';
import { findGlitches } from '../support/glitches.ts';
import { decodeOpus, opusTone } from '../support/sound.ts';

const TICKS = 100;

/** Mixes a tone in a thread, which is told after a number of ticks to encode at another complexity. */
async function mixTone(complexity: number, change?: { to: number; afterTicks: number }) {
  const tone = await opusTone(525, 0.25, TICKS * 20);
  const faults: unknown[] = [];
  const thread = new MixThread(
    { bitrateBps: 32_000, complexity },
    { onFault: (fault) => faults.push(fault), onGone: () => {} },
  );
  await eventually('it is ready', () => thread.isReady);
  const heard: Buffer[] = [];
  let ticks = 0;
  const room = thread.openRoom(
    { minMs: 5, maxMs: 200 },
    {
      mixed: (_name, _format, frame) => heard.push(frame),
      passed: () => {},
      concealed: () => {},
      paused: () => {},
    },
    () => (ticks += 1),
  );
  room.apply({
    speakers: [1],
    leaving: [],
    added: [
      { id: 1, recent: [], isHeard: false, next: undefined, pace: undefined, prerollSamples: 0 },
    ],
    mixes: [{ name: 'all', without: [], gains: [], gainsBefore: [], formats: ['opus'] }],
  });
  for (const [i, payload] of tone.entries()) {
    const packet = { sequenceNumber: i, timestamp: i * FRAME_SAMPLES, payload };
    if (i === change?.afterTicks) thread.setComplexity(change.to);
    room.insert(1, { ...packet, durationSamples: FRAME_SAMPLES }, i * 20);
    room.tick(i * 20 + 10, 0);
    // One at a time, as ticks come, so that the codecs are open by the second.
    await eventually('it has ticked', () => ticks === i + 1);
  }
  await thread.close();
  expect(faults).toEqual([]);
  return heard;
}

test('a mixing thread changes the complexity of an encoder in use, without a click', async () => {
  const constant = await mixTone(5);
  expect(constant.length).toBeGreaterThan(TICKS - 10);
  const changed = await mixTone(5, { to: 0, afterTicks: TICKS / 2 });
  expect(changed).toHaveLength(constant.length);
  // Not at once: of a steady tone some packets are the same.
  const firstChanged = changed.findIndex((frame, i) => !frame.equals(constant[i]!));
  expect(firstChanged).toBeGreaterThan(TICKS / 2 - 10);
  expect(findGlitches((await decodeOpus(changed)).subarray(4800, -4800))).toEqual([]);
});

test('a mixing thread goes on with the other rooms when one cannot be mixed, or its listener throws', async () => {
  const [tone] = await opusTone(525, 0.25, 20);
  const faults: string[] = [];
  const gone: string[] = [];
  const thread = new MixThread(
    { bitrateBps: 32_000, complexity: 5 },
    { onFault: (fault) => faults.push(String(fault)), onGone: (reason) => gone.push(reason) },
  );
  await eventually('it is ready', () => thread.isReady);
  /** Opens a room that hears its only speaker in a format. */
  const openRoom = (format: string, hear: () => void) => {
    let ticks = 0;
    const room = thread.openRoom(
      { minMs: 5, maxMs: 200 },
      { mixed: hear, passed: () => {}, concealed: () => {}, paused: () => {} },
      () => (ticks += 1),
    );
    room.apply({
      speakers: [1],
      leaving: [],
      added: [
        { id: 1, recent: [], isHeard: false, next: undefined, pace: undefined, prerollSamples: 0 },
      ],
      mixes: [{ name: 'all', without: [], gains: [], gainsBefore: [], formats: [format] }],
    });
    return { room, ticks: () => ticks };
  };
  let heard = 0;
  const rooms = [
    openRoom('no format', () => {}),
    openRoom('opus', () => {
      throw new Error('no listener');
    }),
    openRoom('opus', () => (heard += 1)),
  ];
  for (let i = 0; i < 20; i += 1) {
    const packet = { sequenceNumber: i, timestamp: i * FRAME_SAMPLES, payload: tone! };
    for (const { room } of rooms) {
      room.insert(1, { ...packet, durationSamples: FRAME_SAMPLES }, i * 20);
      room.tick(i * 20 + 10, 0);
    }
    await eventually('all have ticked', () => rooms.every(({ ticks }) => ticks() === i + 1));
  }
  expect(gone).toEqual([]);
  expect(heard).toBeGreaterThan(15);
  expect(faults.filter((fault) => fault.includes('no listener'))).toHaveLength(heard);
  expect(faults.length).toBeGreaterThan(heard);
  await thread.close();
});
