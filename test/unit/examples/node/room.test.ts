import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { enterRoom } from '../../../../examples/node/room.mjs';

/** The connections of examples/node, in virtual time; the gateway is the test's. */

/** The gateway's end of a WebSocket. */
class Line {
  static readonly OPEN = 1;
  readonly readyState = Line.OPEN;
  closeCode: number | undefined;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  constructor() {
    lines.push(this);
  }
  close(code: number): void {
    this.closeCode = code;
  }
  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

let lines: Line[];
/** Reasons for which the program ended. */
let ends: string[];
let room: ReturnType<typeof enterRoom>;

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('WebSocket', Line);
  vi.spyOn(console, 'error').mockReturnValue();
  lines = [];
  ends = [];
  const place = { url: 'http://g', apiKey: 'k', room: 'kitchen', peer: 'bot', audio: 'opus' };
  room = enterRoom(place, { onEnd: (reason) => ends.push(reason) });
});
afterEach(async () => {
  const left = room.leave();
  await vi.advanceTimersByTimeAsync(1000);
  await left;
  vi.useRealTimers();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const joined = { type: 'joined', room: 'kitchen' };
const refusal = { type: 'error', code: 'forbidden', message: 'Not you.', retryable: false };

test.each([1001, 1002, 1006, 1007, 1008])(
  'an error right before a close by a proxy or the network (%i) does not end the program',
  async (code) => {
    lines[0]!.say(joined);
    lines[0]!.say(refusal);
    lines[0]!.onclose?.({ code });
    await vi.advanceTimersByTimeAsync(1000);
    expect({ connections: lines.length, ends }).toEqual({ connections: 2, ends: [] });
  },
);

test('an error right before a connection that goes silent does not end the program', async () => {
  lines[0]!.say(joined);
  lines[0]!.say(refusal);
  await vi.advanceTimersByTimeAsync(17_000);
  expect({ connections: lines.length, ends }).toEqual({ connections: 2, ends: [] });
  expect(lines[0]!.closeCode).toBe(4408);
});

test.each([1009, 1012, 4403])(
  'an error with which the gateway closes (%i) ends it',
  async (code) => {
    lines[0]!.say(joined);
    lines[0]!.say(refusal);
    lines[0]!.onclose?.({ code });
    await vi.advanceTimersByTimeAsync(60_000);
    expect({ connections: lines.length, ends }).toEqual({ connections: 1, ends: ['Not you.'] });
  },
);

test('a refused room ends it', async () => {
  lines[0]!.say(refusal);
  await vi.advanceTimersByTimeAsync(60_000);
  expect({ connections: lines.length, ends }).toEqual({ connections: 1, ends: ['Not you.'] });
});
