import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { enterRoom } from '../../../../examples/node/room.mjs';

/** The connections of examples/node, in virtual time; the gateway is the test's. */

const PLACE = { url: 'http://g', apiKey: 'k', room: 'kitchen', peer: 'bot', audio: 'opus' };

/** The gateway's end of a WebSocket. */
class Line {
  static readonly OPEN = 1;
  readonly readyState = Line.OPEN;
  readonly address: string;
  closeCode: number | undefined;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  constructor(address: string) {
    this.address = address;
    lines.push(this);
  }
  close(code: number): void {
    this.closeCode = code;
  }
  say(message: object): void {
    this.onopen?.();
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
  room = enterRoom(PLACE, { onEnd: (reason) => ends.push(reason) });
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

const UNREACHABLE =
  'Cannot connect to http://g: no gateway answers there, or Node does not trust its certificate.';

test.each([
  ['http://g', 'ws://g/ws?'],
  ['https://g/', 'wss://g/ws?'],
  ['https://g/voice/', 'wss://g/voice/ws?'],
])('the gateway at %s is at %s', async (url, address) => {
  const other = enterRoom({ ...PLACE, url }, { onEnd: () => {} });
  expect(lines[1]!.address.slice(0, address.length)).toBe(address);
  await Promise.all([other.leave(), vi.advanceTimersByTimeAsync(1000)]);
});

test('a first connection that does not open ends it, with the reason', async () => {
  lines[0]!.onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(60_000);
  expect({ connections: lines.length, ends }).toEqual({ connections: 1, ends: [UNREACHABLE] });
});

test('a first connection that is not answered ends it', async () => {
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ends).toEqual([UNREACHABLE]);
  expect(lines[0]!.closeCode).toBe(4408);
});

test('a connection that opened once is opened again, for as long as it takes', async () => {
  lines[0]!.say(joined);
  lines[0]!.onclose?.({ code: 1006 });
  for (const count of [2, 3, 4]) {
    await vi.advanceTimersByTimeAsync(60_000);
    expect(lines.length).toBeGreaterThanOrEqual(count);
    lines.at(-1)!.onclose?.({ code: 1006 });
  }
  expect(ends).toEqual([]);
});
