import { once } from 'node:events';
import { type NodeWorker, Session } from 'node:inspector/promises';
import type { Worker } from 'node:worker_threads';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Codecs, loadCodecs } from '../../src/audio/codecs.ts';
import { MixEnginePool } from '../../src/audio/mixing/mix-engine-pool.ts';
import type { MixPlan } from '../../src/audio/mixing/mix-plan.ts';
import { eventually } from '../support/gateway.ts';
import { findGlitches } from '../support/glitches.ts';
import { undisturbed } from '../support/listening.ts';
import { amplitudeOf, decodeOpus, opusTone, peakHz } from '../support/sound.ts';
import { watchNoCores } from '../support/machine-stalls.ts';

const CODEC_SETTINGS = { bitrateBps: 32_000, complexity: 5 };
/** Mixing time per tick that is too much for this thread, and not for two, ms. */
const CROWDED_MS = 13;
const SPEAKERS = 8;
const TONE_HZ = 600;

watchNoCores();

/** The threads that were started, as the process learns of them. */
const threads: Worker[] = [];
process.on('worker', (thread) => threads.push(thread));
const running = () => threads.filter(({ threadId }) => threadId > 0);

let codecs: Codecs;
let tone: Buffer[];
let host: MixEnginePool;
let lost: string[];
/** Number of rooms that are too much work for one thread of this machine. */
let crowd: number;
beforeAll(async () => {
  codecs = await loadCodecs(CODEC_SETTINGS);
  tone = await opusTone(TONE_HZ, 0.05, 1000);
  openHost(0);
  const { start, speak } = openRooms(10);
  start();
  await speak(400);
  crowd = Math.ceil((10 * CROWDED_MS) / (await speak(1000)));
  await host.close();
});
afterEach(() => host.close());

function openHost(maxThreads: number): void {
  lost = [];
  host = new MixEnginePool(maxThreads, codecs, CODEC_SETTINGS, {
    onFault: (fault) => {
      throw fault;
    },
    onThreadLost: (reason) => lost.push(reason),
  });
}

/** Plans for peers that hear all the others: a mix for each speaker, and one for those that only listen. */
function planOf(speakers: number[]): Omit<MixPlan, 'added'> {
  const mix = (name: string, without: number[]) => ({
    name,
    without,
    gains: [],
    gainsBefore: [],
    formats: ['opus'],
  });
  return {
    speakers,
    leaving: [],
    mixes: [mix('all', []), ...speakers.map((id) => mix(`not ${id}`, [id]))],
  };
}

/** Rooms in which all speak the same tone; what is heard by those that only listen is kept. */
function openRooms(count: number) {
  const ids = Array.from({ length: SPEAKERS }, (_, index) => index + 1);
  const openRoom = () => {
    const heard: Buffer[] = [];
    const room = host.openRoom(
      { minMs: 5, maxMs: 200 },
      {
        mixed: (name, _format, frame) => void (name === 'all' && heard.push(frame)),
        passed: () => {},
        concealed: () => {},
        paused: () => {},
      },
      () => {},
    );
    return { room, heard };
  };
  const rooms = Array.from({ length: count }, openRoom);
  let frame = 0;
  const start = (from = 0) => {
    const added = ids.map((id) => ({
      id,
      recent: [],
      isHeard: false,
      next: undefined,
      pace: undefined,
      prerollSamples: 0,
    }));
    for (const { room } of rooms.slice(from)) room.apply({ ...planOf(ids), added });
  };
  /** Speaks for `durationMs`, in real time as nearly as the machine can; returns the median time that this thread took for a tick. */
  const speak = async (durationMs: number) => {
    const startMs = performance.now();
    const tickMs: number[] = [];
    for (let i = 0; i < durationMs / 20; i += 1, frame += 1) {
      const packet = {
        sequenceNumber: frame,
        timestamp: frame * 960,
        payload: tone[frame % 50]!,
        durationSamples: 960,
      };
      const tickStartMs = performance.now();
      for (const { room } of rooms) {
        for (const id of ids) room.insert(id, packet, frame * 20);
        room.tick(frame * 20 + 10, 0);
      }
      tickMs.push(performance.now() - tickStartMs);
      const aheadMs = startMs + i * 20 - performance.now();
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, aheadMs)));
    }
    return tickMs.toSorted((one, other) => one - other)[tickMs.length >> 1]!;
  };
  /** Starts, and opens more rooms until `isEnough`: the machine may be faster than when `crowd` was measured. */
  const crowdUntil = async (isEnough: () => boolean) => {
    start();
    await speak(500);
    for (let tries = 0; tries < 20 && !isEnough(); tries += 1) {
      const from = rooms.length;
      rooms.push(...Array.from({ length: Math.ceil(crowd / 5) }, openRoom));
      start(from);
      await speak(500);
    }
  };
  /** Speaks until `isSo`, which on a busy machine takes longer; fails after `withinMs` of speech. */
  const speakUntil = async (what: string, isSo: () => boolean, withinMs = 20_000) => {
    for (let spokenMs = 0; !isSo(); spokenMs += 200) {
      if (spokenMs >= withinMs) {
        throw new Error(`did not happen in ${withinMs} ms of speech: ${what}`);
      }
      await speak(200);
    }
  };
  /** Speaks for a second more, and expects of each room that it sounds right at the end. */
  const expectSound = async () => {
    let hasLostThread = false;
    const heardIn = await undisturbed(async (_number, note) => {
      const [lostBefore, threadsBefore] = [lost.length, running().length];
      await speak(1000);
      // Its rooms were silent while it did not answer. That happens once.
      if (!hasLostThread && threadsBefore > 0 && lost.length > lostBefore) {
        hasLostThread = true;
        note(Infinity);
      }
      return rooms.map(({ heard }) => [...heard]);
    });
    for (const heard of heardIn) await expectTone(heard);
  };
  return { rooms, start, speak, speakUntil, crowdUntil, expectSound };
}

/** Has the one thread that runs loop for ever, whatever comes. */
async function hangThread(): Promise<void> {
  const inspector = new Session();
  inspector.connect();
  const attached = once(inspector, 'NodeWorker.attachedToWorker');
  await inspector.post('NodeWorker.enable', { waitForDebuggerOnStart: false });
  const [{ params }] = (await attached) as [{ params: NodeWorker.AttachedToWorkerEventDataType }];
  const order = { id: 1, method: 'Runtime.evaluate', params: { expression: 'for (;;);' } };
  await inspector.post('NodeWorker.sendMessageToWorker', {
    sessionId: params.sessionId,
    message: JSON.stringify(order),
  });
  inspector.disconnect();
}

/** The end of what was heard, loud enough and of the right tone. */
async function expectTone(frames: Buffer[]): Promise<void> {
  const sound = (await decodeOpus(frames)).subarray(-24_000);
  expect(peakHz(sound)).toBe(TONE_HZ);
  expect(amplitudeOf(sound, TONE_HZ)).toBeGreaterThan(0.2);
  expect(findGlitches(sound)).toEqual([]);
}

describe('MixEnginePool', () => {
  test('with no threads: everything is mixed here', async () => {
    openHost(0);
    const { start, expectSound } = openRooms(crowd);
    start();
    await expectSound();
    expect(running()).toEqual([]);
  });

  test('with too much to do for this thread: rooms move out, and go on sounding the same', async () => {
    openHost(1);
    const { rooms, speak, speakUntil, crowdUntil, expectSound } = openRooms(crowd);
    expect(host.threadShares).toEqual([0]);
    await crowdUntil(() => running().length > 0);
    const before = rooms.map(({ heard }) => heard.length);
    await speak(1500);
    // All 75 come, but those of a busy thread come late.
    await eventually('60 frames', () =>
      rooms.every(({ heard }, index) => heard.length - before[index]! >= 60),
    );
    // A thread that did not answer in time is replaced.
    await speakUntil('a thread', () => running().length === 1);
    await speakUntil('its share of the load', () => host.threadShares[0]! > 0.1);
    await expectSound();
  });

  test('a thread dies: its rooms go on at once, and another thread takes its place', async () => {
    openHost(1);
    const { rooms, speak, speakUntil, crowdUntil, expectSound } = openRooms(crowd);
    await crowdUntil(() => running().length > 0);
    await speak(1500);
    await speakUntil('a thread', () => running().length === 1);
    const lostBefore = lost.length;
    const [victim] = running();
    await victim?.terminate();
    const before = rooms.map(({ heard }) => heard.length);
    await speak(2000);
    // Half of the first 100 frames: sound is back within a second.
    await eventually('50 frames', () =>
      rooms.every(({ heard }, index) => heard.length - before[index]! >= 50),
    );
    await speakUntil('another thread', () => running().length === 1);
    // On a busy machine the thread in its place may be lost, too.
    expect(lost.length).toBeGreaterThan(lostBefore);
    expect(running()).not.toContain(victim);
    await expectSound();
  });

  test('a thread hangs: it is ended, and its rooms go on', async () => {
    openHost(1);
    const { speak, speakUntil, crowdUntil, expectSound } = openRooms(crowd);
    await crowdUntil(() => running().length > 0);
    await speak(1500);
    await speakUntil('a thread', () => running().length === 1);
    const lostBefore = lost.length;
    const [victim] = running();
    await hangThread();
    // Its silence is added up by what is sent to it, so that a slow machine needs no more speech.
    await speakUntil('it is ended', () => lost.length > lostBefore, 3000);
    expect(lost[lostBefore]).toBe('it did not answer for 1000 ms');
    await expectSound();
    expect(running()).not.toContain(victim);
  });

  test('a thread that cannot be started: everything goes on being mixed here, and that is told', async () => {
    lost = [];
    // Settings that cannot be cloned make the start of a thread fail, as a lack of threads does.
    host = new MixEnginePool(1, codecs, Object.assign({ no: () => {} }, CODEC_SETTINGS), {
      onFault: () => {},
      onThreadLost: (reason) => lost.push(reason),
    });
    const { speakUntil, crowdUntil, expectSound } = openRooms(crowd);
    const startMs = performance.now();
    await crowdUntil(() => lost.length > 0);
    // Tried again every second.
    await speakUntil('another try', () => lost.length >= 2);
    expect(running()).toEqual([]);
    expect(lost.length).toBeLessThanOrEqual(2 + (performance.now() - startMs) / 1000);
    expect(lost[0]).toContain('DataCloneError');
    await expectSound();
  });

  test('close(): no thread is left', async () => {
    openHost(1);
    const { crowdUntil } = openRooms(crowd);
    await crowdUntil(() => running().length > 0);
    // On a busy machine a thread may have been lost before.
    const lostBefore = lost.length;
    await host.close();
    expect(running()).toEqual([]);
    expect(lost.slice(lostBefore)).toEqual([]);
  });
});
