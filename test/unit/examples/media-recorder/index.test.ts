import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runInNewContext } from 'node:vm';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

/** The script of examples/media-recorder, in virtual time; browser and gateway are the test's. */

const PAGE = join(import.meta.dirname, '../../../../examples/media-recorder/index.html');
const [, SCRIPT = ''] = /<script type="module">(.*)<\/script>/s.exec(readFileSync(PAGE, 'utf8'))!;

/** The gateway's end of a WebSocket; the network never tells that it is gone. */
class Line {
  static readonly OPEN = 1;
  readonly readyState = Line.OPEN;
  readonly address: string;
  readonly query: URLSearchParams;
  closeCode: number | undefined;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  constructor(address: string | URL) {
    this.address = String(address);
    this.query = new URL(address).searchParams;
    lines.push(this);
  }
  close(code: number): void {
    this.closeCode = code;
  }
  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

class Recorder {
  state = 'inactive';

  constructor() {
    recorders.push(this);
  }
  start(): void {
    this.state = 'recording';
  }
  stop(): void {
    this.state = 'inactive';
  }
}

/** Something that the page opens: a track of the microphone, or the player. */
class Opened {
  isOpen = true;

  constructor() {
    opened.push(this);
  }
  stop(): void {
    this.isOpen = false;
  }
  close(): void {
    this.stop();
  }
}

let lines: Line[];
/** Link that the user pasted. */
let input: { value: string };
/** Addresses to which invitations were sent. */
let redeemed: string[];
let recorders: Recorder[];
let opened: Opened[];
/** True if the user allows the microphone. */
let isAllowed: boolean;
let button: { disabled?: boolean; onclick?: () => Promise<void> };
let p: { textContent?: string };

/** Clicks as a user can: a button that is disabled has no effect. */
const click = async () => {
  if (!button.disabled) await button.onclick!();
};

beforeEach(async () => {
  vi.useFakeTimers();
  lines = [];
  redeemed = [];
  recorders = [];
  opened = [];
  isAllowed = true;
  button = {};
  p = {};
  input = { value: 'https://voice.example.com/#invite=i' };
  const elements: Record<string, object> = { input, button, p };
  const getUserMedia = async () => {
    if (!isAllowed) throw new Error('Permission denied');
    const tracks = [new Opened()];
    return { getTracks: () => tracks };
  };
  const guest = { room: 'kitchen', peer: 'guest', token: 't' };
  runInNewContext(SCRIPT, {
    URL,
    URLSearchParams,
    setTimeout,
    clearTimeout,
    document: { querySelector: (name: string) => elements[name] },
    navigator: { mediaDevices: { getUserMedia } },
    fetch: async (address: string | URL) => {
      redeemed.push(String(address));
      return Response.json(guest);
    },
    WebSocket: Line,
    MediaRecorder: Recorder,
    AudioContext: Opened,
  });
  await Promise.all([click(), click()]);
});
afterEach(() => {
  vi.useRealTimers();
});

const joined = { type: 'joined', room: 'kitchen' };

test('a double click makes one peer', () => {
  expect(lines).toHaveLength(1);
  expect(opened.map(({ isOpen }) => isOpen)).toEqual([true, true]);
});

test('a connection that has gone silent for 15 s is given up, and replaced', async () => {
  const [first] = lines as [Line];
  expect(first.query.get('stats')).toBe('true');
  first.say(joined);
  for (let i = 0; i < 4; i += 1) {
    await vi.advanceTimersByTimeAsync(14_000);
    first.say({ type: 'stats' });
  }
  expect(lines).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(16_000);
  expect(lines).toHaveLength(2);
  expect(first.closeCode).toBe(4408);
  lines[1]!.say(joined);
  expect(recorders.map(({ state }) => state)).toEqual(['inactive', 'recording']);
  // The operating system gives the first one up much later.
  first.onclose?.({ code: 1006 });
  await vi.advanceTimersByTimeAsync(2000);
  expect(lines).toHaveLength(2);
});

test('a connection that never opens is given up, too', async () => {
  await vi.advanceTimersByTimeAsync(16_000);
  expect(lines).toHaveLength(2);
});

const refusal = { type: 'error', code: 'forbidden', message: 'Not you.', retryable: false };

test.each([
  { code: 1001, connections: 2 },
  { code: 1006, connections: 2 },
  { code: 1008, connections: 2 },
  { code: 1009, connections: 1 },
  { code: 4403, connections: 1 },
])(
  'an error before a close with $code: $connections connections',
  async ({ code, connections }) => {
    lines[0]!.say(joined);
    lines[0]!.say(refusal);
    lines[0]!.onclose?.({ code });
    await vi.advanceTimersByTimeAsync(2000);
    expect(lines).toHaveLength(connections);
  },
);

test('a peer that is sent away leaves neither microphone nor player open, and can join again', async () => {
  lines[0]!.say(joined);
  lines[0]!.say(refusal);
  lines[0]!.onclose?.({ code: 4403 });
  expect(opened.map(({ isOpen }) => isOpen)).toEqual([false, false]);
  expect(p.textContent).toBe('Not you.');
  await click();
  expect(lines).toHaveLength(2);
  expect(opened.map(({ isOpen }) => isOpen)).toEqual([false, false, true, true]);
});

test('a connection that breaks keeps them, and takes no click', async () => {
  lines[0]!.onclose?.({ code: 1006 });
  await click();
  expect(lines).toHaveLength(1);
  expect(opened.map(({ isOpen }) => isOpen)).toEqual([true, true]);
});

test('after a microphone that is refused, the button can be clicked again', async () => {
  lines[0]!.say(refusal);
  lines[0]!.onclose?.({ code: 4403 });
  isAllowed = false;
  await click();
  expect({ text: p.textContent, connections: lines.length }).toEqual({
    text: 'Permission denied',
    connections: 1,
  });
  isAllowed = true;
  await click();
  expect(lines).toHaveLength(2);
});

test.each([
  ['https://voice.example.com/', 'wss://voice.example.com/ws'],
  ['https://example.com/voice/', 'wss://example.com/voice/ws'],
  ['http://localhost:8080/', 'ws://localhost:8080/ws'],
])('an invitation to the gateway at %s leads to it', async (page, socket) => {
  lines[0]!.say(refusal);
  lines[0]!.onclose?.({ code: 4403 });
  input.value = `${page}#invite=i`;
  await click();
  expect(redeemed.at(-1)).toBe(`${page}api/invites/redeem`);
  const [address] = lines[1]!.address.split('?');
  expect(address).toBe(socket);
  expect(lines[1]!.query.get('token')).toBe('t');
});
