import { EventEmitter } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type LiveSession, Sessions } from '../../../src/admission/sessions.ts';
import { Heartbeat } from '../../../src/session/heartbeat.ts';
import { Pings } from '../../../src/session/pings.ts';

const { beatEveryMs, heartbeatEveryMs } = DEFAULT_TIMINGS.sessions;

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test('a process that stood still pings a client whose frames it has not read, and closes it only after 30 s more', () => {
  // A fake setInterval would run for each interval of a step, unlike that of a process that stood still.
  const beats = vi.spyOn(globalThis, 'setInterval');
  const sessions = new Sessions(DEFAULT_TIMINGS.sessions);
  const socket = Object.assign(new EventEmitter(), { ping: vi.fn<(payload: Buffer) => void>() });
  const pings = new Pings(DEFAULT_TIMINGS.sessions);
  const stream = { bytesRead: 0 };
  const { sessions: timings } = DEFAULT_TIMINGS;
  const heartbeat = new Heartbeat(socket, stream, heartbeatEveryMs, pings, timings);
  const states: string[] = [];
  const session = {
    name: 'ada',
    account: { id: 1 },
    beat: (nowMs: number, hasStoodStill: boolean) =>
      void states.push(heartbeat.beat(nowMs, !hasStoodStill)),
  } as unknown as LiveSession;
  sessions.add(session);
  const [beat] = beats.mock.lastCall!;
  const beatAfter = (stepMs: number) => {
    vi.advanceTimersByTime(stepMs);
    beat();
  };
  beatAfter(beatEveryMs);
  beatAfter(40_000);
  expect(states).toEqual(['alive', 'alive']);
  expect(socket.ping).toHaveBeenCalled();
  for (let i = 0; i < 29; i += 1) beatAfter(beatEveryMs);
  expect(new Set(states)).toEqual(new Set(['alive']));
  beatAfter(beatEveryMs);
  expect(states.at(-1)).toBe('silent');
  sessions.delete(session);
});
