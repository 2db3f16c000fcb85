import { expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../../../src/audio/codecs.ts';
import { LocalMixEngine } from '../../../../src/audio/mixing/local-mix-engine.ts';
import { MigratingMixEngine } from '../../../../src/audio/mixing/migrating-mix-engine.ts';
import type { MixBackend } from '../../../../src/audio/mixing/mix-engine.ts';
import type { MixPlan } from '../../../../src/audio/mixing/mix-plan.ts';
import { findGlitches } from '../../../support/glitches.ts';
import { joinAll } from '../../../support/simulated-room.ts';
import { opusTone } from '../../../support/sound.ts';

const PLAN: MixPlan = {
  speakers: [1],
  leaving: [],
  added: [
    { id: 1, recent: [], isHeard: false, next: undefined, pace: undefined, prerollSamples: 0 },
  ],
  mixes: [{ name: 'all', without: [], gains: [], gainsBefore: [], formats: ['opus'] }],
};
const LIMITS = { minMs: 5, maxMs: 200 };

/** A backend that takes `costMs` for each tick, one after the other, and nothing for one that is skipped. */
class SlowBackend implements MixBackend {
  readonly kind = 'thread';
  loadMs = 0;
  readonly skippedAtMs: number[] = [];
  readonly #costMs: number;
  readonly #answers: { atMs: number; answer: () => void }[] = [];
  #busyUntilMs = 0;

  constructor(costMs: number) {
    this.#costMs = costMs;
  }

  openRoom(...[, output, onTicked]: Parameters<MixBackend['openRoom']>) {
    let isClosed = false;
    return {
      apply: () => {},
      insert: () => {},
      tick: (nowMs: number, _movedMs: number, isSkipped = false) => {
        const costMs = isSkipped ? 0 : this.#costMs;
        if (isSkipped) this.skippedAtMs.push(nowMs);
        this.#busyUntilMs = Math.max(this.#busyUntilMs, nowMs) + costMs;
        const answer = () => {
          if (isClosed) return;
          if (!isSkipped) output.mixed('all', 'opus', Buffer.from(String(nowMs)));
          const dropped = { late: 0, undecodable: 0 };
          onTicked({ costMs, isSkipped, dropped, depth: { speakers: 1, sumMs: 20, maxMs: 20 } });
        };
        this.#answers.push({ atMs: this.#busyUntilMs, answer });
      },
      close: () => {
        isClosed = true;
      },
    };
  }

  release(nowMs: number): void {
    while (this.#answers[0] && this.#answers[0].atMs <= nowMs) this.#answers.shift()!.answer();
  }
}

/** A room in a backend that is too slow for it, for `lastMs`. */
function runLate(
  lastMs: number,
  slow: SlowBackend,
  other = slow,
  plans = new Map<number, MixPlan>(),
) {
  const latenessMs: number[] = [];
  let ticked = 0;
  let nowMs = 0;
  const room: MigratingMixEngine = new MigratingMixEngine(
    LIMITS,
    {
      mixed: (_name, _format, frame) => latenessMs.push(nowMs - Number(frame.toString())),
      passed: () => {},
      concealed: () => {},
      paused: () => {},
    },
    () => (ticked += 1),
    {
      first: slow,
      choose: (leaving) => (leaving ? other : slow),
      isCrowded: () => false,
      onClose: () => {},
    },
  );
  room.apply(PLAN);
  let ticks = 0;
  for (; nowMs < lastMs; nowMs += 1) {
    slow.release(nowMs);
    other.release(nowMs);
    const plan = plans.get(nowMs);
    if (plan) room.apply(plan);
    if (nowMs % 20 !== 0) continue;
    room.tick(nowMs, 0);
    ticks += 1;
  }
  return { room, latenessMs, ticked, ticks };
}

test.each([
  [25, 260],
  [30, 300],
])('a thread that needs %i ms for 20 ms is never more than %i ms late', (costMs, mostMs) => {
  const slow = new SlowBackend(costMs);
  const { latenessMs, ticks, ticked } = runLate(5000, slow);
  expect(Math.max(...latenessMs)).toBeLessThanOrEqual(mostMs);
  expect(slow.skippedAtMs.length / ticks).toBeCloseTo(1 - 20 / costMs, 1);
  // The load of the backend is still known to be too much.
  expect(slow.loadMs).toBeCloseTo(costMs, 1);
  expect(ticks - ticked).toBeLessThanOrEqual(300 / 20);
});

test('a room whose thread is 200 ms late moves to one with room, and nothing is skipped', () => {
  const slow = new SlowBackend(30);
  const quick = new SlowBackend(5);
  const { room, latenessMs, ticks, ticked } = runLate(5000, slow, quick);
  expect(room.backend).toBe(quick);
  expect(Math.max(...latenessMs.slice(-100))).toBe(5);
  expect(slow.skippedAtMs).toEqual([]);
  // Ticks that were lost in the move are reported, too.
  expect(ticks - ticked).toBe(0);
});

test.each([
  ['a speaker fades out', { ...PLAN, added: [], leaving: [1] }],
  ['the last speaker has faded out', { ...PLAN, added: [], speakers: [] }],
])('a room does not move while %s, however late its thread is', (_, plan) => {
  const slow = new SlowBackend(60);
  const { room } = runLate(1000, slow, new SlowBackend(5), new Map([[0, plan]]));
  expect(room.backend).toBe(slow);
});

test('a tick in which a speaker fades out is not skipped', () => {
  const slow = new SlowBackend(60);
  const leaving = { ...PLAN, added: [], leaving: [1] };
  const plans = new Map<number, MixPlan>([
    [2010, leaving],
    [2030, { ...PLAN, leaving: [] }],
  ]);
  runLate(3000, slow, slow, plans);
  expect(slow.skippedAtMs).toContain(2000);
  expect(slow.skippedAtMs).not.toContain(2020);
  expect(slow.skippedAtMs).toContain(2040);
});

test('audio that is skipped is dropped without a click, and does not wait in the jitter buffer', async () => {
  const codecs: Codecs = await loadCodecs({ bitrateBps: 32_000, complexity: 5 });
  const tone = await opusTone(515, 0.3, 4000);
  const frames: Float32Array[] = [];
  let passed = 0;
  const faults: unknown[] = [];
  const engine = new LocalMixEngine(
    codecs,
    LIMITS,
    {
      mixed: (_name, _format, frame) => {
        const { buffer, byteOffset, length } = frame;
        frames.push(
          Float32Array.from(new Int16Array(buffer.slice(byteOffset, byteOffset + length))),
        );
      },
      passed: () => (passed += 1),
      concealed: () => {},
      paused: () => {},
    },
    (fault) => faults.push(fault),
  );
  const [mix] = PLAN.mixes;
  engine.apply({ ...PLAN, mixes: [{ ...mix!, formats: ['pcm_s16le;rate=48000;channels=1'] }] });
  const depthsMs: number[] = [];
  for (const [i, payload] of tone.entries()) {
    const packet = { sequenceNumber: i, timestamp: i * 960, payload, durationSamples: 960 };
    engine.insert(1, packet, i * 20);
    // Parts that open asynchronously are open by the next tick.
    await new Promise(setImmediate);
    const isSkipped = i > 20 && (i % 5 === 0 || i % 17 < 3);
    depthsMs.push(engine.tick(i * 20 + 10, 0, isSkipped).depth.sumMs);
  }
  engine.close();
  expect(faults).toEqual([]);
  expect(frames.length).toBeLessThan(150);
  expect(passed).toBeGreaterThan(190);
  expect(Math.max(...depthsMs)).toBeLessThanOrEqual(20);
  const sound = joinAll(frames).map((sample) => sample / 32_768);
  expect(findGlitches(sound.subarray(4800))).toEqual([]);
});
