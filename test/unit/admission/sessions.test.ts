import { EventEmitter, once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterEach, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { type LiveSession, Sessions } from '../../../src/admission/sessions.ts';
import { Heartbeat } from '../../../src/session/heartbeat.ts';
import { Pings } from '../../../src/session/pings.ts';
import { standStill } from '../../support/stand-still.ts';

const { beatEveryMs, heartbeatEveryMs } = DEFAULT_TIMINGS.sessions;

/** Time that a beat leaves for reading. */
const READ_WITHIN_MS = 40;

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test('a process that stood still pings a client whose frames it has not read, and closes it only after 30 s more', () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  // A fake setInterval would run for each interval of a step, unlike that of a process that stood
  // still.
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
    vi.advanceTimersByTime(stepMs - READ_WITHIN_MS);
    beat();
    vi.advanceTimersByTime(READ_WITHIN_MS);
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

test('a message that waits when a beat is due is read before the beat', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [accepted] = (await once(server, 'connection')) as [Socket];
  let isHeard = false;
  accepted.once('data', () => (isHeard = true));
  const sessions = new Sessions({ ...DEFAULT_TIMINGS.sessions, beatEveryMs: 10 });
  const beaten = Promise.withResolvers<boolean>();
  const session = {
    name: 'ada',
    account: { id: 1 },
    beat: () => beaten.resolve(isHeard),
  } as unknown as LiveSession;
  sessions.add(session);
  client.write('a');
  standStill(50);
  expect(await beaten.promise).toBe(true);
  sessions.delete(session);
  client.destroy();
  accepted.destroy();
  server.close();
});

test('no beat follows the last session', () => {
  vi.useFakeTimers();
  const sessions = new Sessions(DEFAULT_TIMINGS.sessions);
  const session = {
    name: 'ada',
    account: { id: 1 },
    beat: vi.fn<LiveSession['beat']>(),
  } as unknown as LiveSession;
  sessions.add(session);
  vi.advanceTimersByTime(beatEveryMs);
  sessions.delete(session);
  expect(vi.getTimerCount()).toBe(0);
  vi.advanceTimersByTime(READ_WITHIN_MS);
  expect(session.beat).not.toHaveBeenCalled();
});
