import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { Heartbeat } from '../../../src/session/heartbeat.ts';
import { Pings } from '../../../src/session/pings.ts';

describe('Heartbeat', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
  afterEach(() => void vi.useRealTimers());

  /** A client that is pinged every 5 s, and is looked at every second. */
  const open = () => {
    const socket = { ping: vi.fn<(payload: Buffer) => void>() };
    const pings = new Pings(DEFAULT_TIMINGS.sessions);
    const stream = { bytesRead: 200 };
    const heartbeat = new Heartbeat(socket, stream, 5000, pings, DEFAULT_TIMINGS.sessions);
    const lives = (
      seconds: number,
      client: { sends?: boolean; answers?: boolean; sendsFragments?: boolean },
      isRead = true,
    ) => {
      const told: string[] = [];
      for (let i = 0; i < seconds; i += 1) {
        vi.advanceTimersByTime(1000);
        if (client.sends) stream.bytesRead += 87;
        if (client.sendsFragments && i % 25 === 0) stream.bytesRead += 7;
        const count = socket.ping.mock.calls.length;
        told.push(heartbeat.beat(performance.now(), isRead));
        if (client.answers && socket.ping.mock.calls.length > count) {
          vi.advanceTimersByTime(40);
          stream.bytesRead += 10;
        }
      }
      return told;
    };
    return { pings, socket, lives };
  };

  test('beat() of a client that answers: alive', () => {
    const { socket, lives } = open();
    expect(new Set(lives(60, { answers: true }))).toEqual(new Set(['alive']));
    expect(socket.ping.mock.calls.length).toBeGreaterThanOrEqual(11);
  });

  test('beat() of a client that the gateway itself does not read: alive, and judged anew later', () => {
    const { lives } = open();
    lives(10, { sends: true, answers: true });
    expect(new Set(lives(60, {}, false))).toEqual(new Set(['alive']));
    expect(lives(31, {}).at(-1)).toBe('silent');
  });

  test('beat() of a client that sends, but does not answer: alive', () => {
    const { lives } = open();
    expect(new Set(lives(60, { sends: true }))).toEqual(new Set(['alive']));
  });

  test('beat() of a client that sends one message in many fragments: alive, as long as they come', () => {
    const { lives } = open();
    expect(new Set(lives(101, { sendsFragments: true }))).toEqual(new Set(['alive']));
    expect(new Set(lives(29, {}))).toEqual(new Set(['alive']));
    expect(lives(2, {}).at(-1)).toBe('silent');
  });

  test('beat() of a client that sends nothing: silent after 30 s', () => {
    const { lives } = open();
    lives(10, { answers: true });
    const told = lives(36, {});
    expect(new Set(told.slice(0, 24))).toEqual(new Set(['alive']));
    expect(told.at(-1)).toBe('silent');
  });

  test('beat() does not ping while pings go out among the sound', () => {
    const { pings, socket, lives } = open();
    for (let second = 0; second < 60; second += 1) {
      pings.frame(performance.now() + 900);
      lives(1, { sends: true });
    }
    expect(socket.ping).not.toHaveBeenCalled();
  });
});
