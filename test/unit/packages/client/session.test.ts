import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PartylineClient } from '../../../../packages/client/src/client.ts';
import { RequestError } from '../../../../packages/client/src/errors.ts';
import type { AudioParts, RoomAudio } from '../../../../packages/client/src/room-audio.ts';
import { checkName } from '../../../../src/protocol/names.ts';
import { VirtualChannel } from '../../../support/virtual-channel.ts';

/** Calls of the browser client at moments at which it is not simply in the lobby or in a room. The test is the gateway; Node has no audio of browsers. */

/** Parts of the audio that differ in a test. */
let special: (parts: AudioParts) => Partial<RoomAudio>;
const audioOf = (parts: AudioParts): Partial<RoomAudio> => ({
  transport: 'websocket',
  isPathBroken: false,
  isStopped: false,
  hasPath: true,
  opened: () => Promise.resolve(),
  applyMicrophone: () => Promise.resolve(),
  applySettings: () => Promise.resolve(),
  trackOf: () => undefined,
  receive: () => undefined,
  resume: () => undefined,
  close: () => undefined,
  ...special(parts),
});
vi.mock('../../../../packages/client/src/load-audio.ts', () => ({
  loadAudio: () => Promise.resolve(audioOf),
}));

type Sent = { type: string; room?: string; id: string };

/** The gateway's end of a WebSocket. */
class Line extends EventTarget {
  static readonly OPEN = 1;
  static lines: Line[];
  /** Gateway reachable: connections are let in, and requests are answered. */
  static isUp: boolean;
  /** Room in which the gateway has the client, also while it is away. */
  static room: string | undefined;
  /** False if the path breaks before the `joined` of a room that was resumed. */
  static isJoinedTold: boolean;
  /** Other peers in every room. */
  static peers: object[];
  /** True once an operator has muted the client. */
  static mute: boolean;
  /** Called when a request has come, and is about to be answered. */
  static heard: (request: Sent) => void;
  readonly readyState = Line.OPEN;
  readonly bufferedAmount = 0;
  readonly sent: Sent[] = [];
  closeCode: number | undefined;

  constructor() {
    super();
    Line.lines.push(this);
    if (Line.isUp) queueMicrotask(() => this.#welcome());
  }

  static get last(): Line {
    return Line.lines.at(-1)!;
  }

  #welcome(): void {
    const room = Line.room ?? '__lobby__';
    const resumed = Line.lines.length > 1;
    const secrets = { session_id: 's', resume_token: 't', network: '192.0.2.0/24' };
    const { mute } = Line;
    this.say({ type: 'welcome', room, resumed, mute, ...secrets, resume_ms: 15_000 });
    if (Line.room !== undefined && Line.isJoinedTold)
      this.say({ type: 'joined', room, speaker: 1, peers: Line.peers });
  }

  send(text: string): void {
    const request = JSON.parse(text) as Sent;
    this.sent.push(request);
    if (Line.isUp) queueMicrotask(() => this.answer(request));
    Line.heard(request);
  }

  answer(request: Sent): void {
    this.say({ ...this.#answerTo(request), reply_to: request.id });
  }

  #answerTo({ type, room = '' }: Sent): object {
    const error = { type: 'error', message: 'No.', retryable: false };
    if (type === 'join') {
      if (room === 'closed shop') return { ...error, code: 'forbidden' };
      Line.room = room;
      return { type: 'joined', room, speaker: 1, peers: Line.peers };
    }
    if (type === 'leave') {
      const left = Line.room;
      Line.room = undefined;
      return left === undefined ? { ...error, code: 'bad_message' } : { type: 'left', room: left };
    }
    return { type: 'configured', audio: {}, volume: {}, mute: false };
  }

  say(message: object): void {
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(message) }));
  }

  /** Ends the connection: without a code, as if the network had broken it. */
  cut(code = 1006): void {
    this.dispatchEvent(Object.assign(new Event('close'), { code, reason: '' }));
  }

  close(code: number): void {
    this.closeCode = code;
  }
}

let client: PartylineClient;

beforeEach(async () => {
  vi.useFakeTimers();
  special = () => ({});
  Line.lines = [];
  Line.isUp = true;
  Line.room = undefined;
  Line.isJoinedTold = true;
  Line.peers = [];
  Line.mute = false;
  Line.heard = () => undefined;
  vi.stubGlobal('location', { href: 'https://voice.example.com/' });
  vi.stubGlobal('WebSocket', Line);
  vi.stubGlobal('MessageChannel', VirtualChannel);
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('window', { setTimeout, clearTimeout, setInterval, clearInterval, ...events });
  client = new PartylineClient({
    peer: 'ada',
    getToken: () => Promise.resolve('token'),
    transports: ['websocket'],
  });
  await client.connect();
});
afterEach(() => {
  client.close();
  if (vi.getTimerCount() > 0) throw new Error('A timer is left.');
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Lets the client try to connect again. */
const reconnect = () => vi.advanceTimersByTimeAsync(1000);

test('a connection that dies in the lobby is noticed within 12 s', async () => {
  await vi.advanceTimersByTimeAsync(60_000);
  expect(client.state.name).toBe('lobby');
  Line.isUp = false;
  await vi.advanceTimersByTimeAsync(12_000);
  expect(client.state).toMatchObject({
    name: 'reconnecting',
    reason: { message: 'The connection went silent.' },
  });
  Line.isUp = true;
  // A connection that was opened meanwhile is given up after 10 s.
  await vi.advanceTimersByTimeAsync(30_000);
  expect(client.state.name).toBe('lobby');
});

test('a connection that dies right after the welcome to a room is replaced within 15 s', async () => {
  await client.join('kitchen');
  Line.isJoinedTold = false;
  Line.last.cut();
  await reconnect();
  expect(client.state).toMatchObject({ name: 'reconnecting', room: 'kitchen' });
  Line.isJoinedTold = true;
  await vi.advanceTimersByTimeAsync(15_000);
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(Line.lines).toHaveLength(3);
  // The wait for `joined` has ended.
  await vi.advanceTimersByTimeAsync(20_000);
  expect(Line.lines).toHaveLength(3);
});

test('what is in a large room may take 9 s on a slow network', async () => {
  await client.join('kitchen');
  Line.isJoinedTold = false;
  Line.last.cut();
  await reconnect();
  await vi.advanceTimersByTimeAsync(9000);
  Line.last.say({ type: 'joined', room: 'kitchen', speaker: 1, peers: [] });
  await vi.advanceTimersByTimeAsync(20_000);
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(Line.lines).toHaveLength(2);
});

/** Takes the failure of a call, which may come before the test looks. */
const failureOf = (call: Promise<void>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );

const never = () => new Promise<void>(() => undefined);

test('a connection that dies right after the answer to a join is told within 5 s, and replaced', async () => {
  special = ({ wire }) => ({
    transport: 'webrtc',
    applyMicrophone: async () => void (await wire.request({ type: 'leave' })),
  });
  Line.heard = ({ type }) => void (Line.isUp &&= type !== 'join');
  const joined = failureOf(client.join('kitchen'));
  await vi.advanceTimersByTimeAsync(5000);
  expect(client.state).toMatchObject({
    name: 'in_room',
    trouble: expect.stringContaining('nothing arrives from the gateway'),
  });
  special = () => ({});
  Line.heard = () => undefined;
  Line.isUp = true;
  await vi.advanceTimersByTimeAsync(5000);
  expect(await joined).toBeUndefined();
  expect(client.state).toMatchObject({ name: 'in_room', isInterrupted: false });
});

test.each([
  ['audio files that never load', { hasPath: false, opened: never }, 'has not loaded'],
  ['a microphone that is never taken', { applyMicrophone: never }, 'takes long to open'],
])('%s: that is told within 5 s', async (_, audio, trouble) => {
  special = () => audio;
  void failureOf(client.join('kitchen'));
  await vi.advanceTimersByTimeAsync(3000);
  expect(client.state).not.toHaveProperty('trouble');
  await vi.advanceTimersByTimeAsync(2000);
  expect(client.state).toMatchObject({ trouble: expect.stringContaining(trouble) });
});

test('the way of a room that is still being opened is not changed', async () => {
  special = () => ({ transport: 'webrtc', applyMicrophone: never });
  void failureOf(client.join('kitchen'));
  await vi.advanceTimersByTimeAsync(2000);
  expect(sent()).toEqual(['join']);
});

const sent = () => Line.last.sent.map(({ type }) => type);

test('leave() right after join() asks the gateway for neither', async () => {
  const left = failureOf(client.join('kitchen'));
  await client.leave();
  expect(await left).toMatchObject({ code: 'left' });
  await vi.advanceTimersByTimeAsync(100);
  expect(client.state).toEqual({ name: 'lobby' });
  expect(sent()).toEqual([]);
});

test('leave() while the gateway is asked for a room leaves it, or finds that it was refused', async () => {
  for (const room of ['kitchen', 'closed shop']) {
    let left: Promise<void> | undefined;
    Line.heard = () => void (left ??= client.leave());
    await expect(client.join(room)).rejects.toMatchObject({ code: 'left' });
    await left;
    expect(client.state).toEqual({ name: 'lobby' });
    expect(Line.room).toBeUndefined();
  }
  expect(sent()).toEqual(['join', 'leave', 'join', 'leave']);
});

test('leave() right after a move leaves the room before', async () => {
  await client.join('kitchen');
  const left = failureOf(client.join('hall'));
  await client.leave();
  expect(await left).toMatchObject({ code: 'left' });
  expect(Line.room).toBeUndefined();
});

/** Begins to join the kitchen, and moves on to another room before the audio of the kitchen fails to open. */
async function moveOn(room: string): Promise<unknown> {
  const opened = Promise.withResolvers<void>();
  special = ({ joined }) => (joined.room === 'kitchen' ? { opened: () => opened.promise } : {});
  const first = failureOf(client.join('kitchen'));
  await vi.advanceTimersByTimeAsync(100);
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  Line.isUp = false;
  const second = failureOf(client.join(room));
  expect(await first).toMatchObject({ code: 'moved' });
  opened.reject(new Error('Not loaded.'));
  await vi.advanceTimersByTimeAsync(100);
  special = () => ({});
  Line.isUp = true;
  Line.last.answer(Line.last.sent.at(-1)!);
  await vi.advanceTimersByTimeAsync(100);
  return second;
}

test('a move to another room goes on if the audio of the room before fails meanwhile', async () => {
  expect(await moveOn('hall')).toBeUndefined();
  expect(client.state).toMatchObject({ name: 'in_room', room: 'hall' });
  expect(sent()).toEqual(['join', 'join']);
});

test('a move that is refused leads back to the room before, which is joined again if its audio has failed meanwhile', async () => {
  expect(await moveOn('closed shop')).toMatchObject({ code: 'forbidden' });
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(sent()).toEqual(['join', 'join', 'join']);
});

test('a join while the connection is broken is fulfilled by the next one', async () => {
  Line.last.cut();
  const joined = client.join('kitchen');
  expect(client.state).toMatchObject({ name: 'reconnecting', room: 'kitchen' });
  await reconnect();
  await joined;
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
});

test('a join of another room while the connection is broken takes the place of the room before', async () => {
  await client.join('kitchen');
  Line.last.cut();
  const first = client.join('hall');
  const second = client.join('attic');
  await expect(first).rejects.toMatchObject({ code: 'moved' });
  await reconnect();
  await second;
  expect(client.state).toMatchObject({ name: 'in_room', room: 'attic' });
  expect(Line.room).toBe('attic');
});

test('a join while the connection is broken that is refused later leads to the lobby', async () => {
  await client.join('kitchen');
  Line.last.cut();
  const refused = failureOf(client.join('closed shop'));
  await reconnect();
  expect(await refused).toMatchObject({ code: 'forbidden' });
  expect(client.state).toEqual({ name: 'lobby' });
  expect(Line.room).toBeUndefined();
});

test('a join before the first connection has come about: connect() resolves, too', async () => {
  client.close();
  Line.isUp = false;
  client = new PartylineClient({
    peer: 'ada',
    getToken: () => Promise.resolve('token'),
    transports: ['websocket'],
  });
  const connected = client.connect();
  await vi.advanceTimersByTimeAsync(0);
  Line.last.cut();
  const joined = client.join('kitchen');
  Line.isUp = true;
  await reconnect();
  await Promise.all([connected, joined]);
  expect(client.state).toMatchObject({ name: 'in_room' });
});

test('a join while the connection is broken ends with the client, or by leave()', async () => {
  Line.last.cut();
  const left = failureOf(client.join('kitchen'));
  await client.leave();
  expect(await left).toMatchObject({ code: 'left' });
  const closed = failureOf(client.join('hall'));
  client.close();
  expect(await closed).toMatchObject({ name: 'ClosedError' });
});

const FORBIDDEN = { type: 'error', code: 'forbidden', retryable: false };

test('an error that the gateway closes with: the reason, and no fault', async () => {
  const faults: string[] = [];
  client.on('fault', (message) => faults.push(message));
  await client.join('kitchen');
  Line.last.say({ ...FORBIDDEN, message: 'Removed by an operator.' });
  await vi.advanceTimersByTimeAsync(100);
  Line.last.cut(4403);
  expect(client.state).toMatchObject({
    name: 'closed',
    reason: { code: 'forbidden', message: 'Removed by an operator.' },
  });
  expect(faults).toEqual([]);
});

test('an error of a newer gateway: the reason of a close with a code that is not known either', async () => {
  await client.join('kitchen');
  const error = { code: 'too_many_rooms', message: 'Too many.', retryable: true };
  Line.last.say({ type: 'error', ...error, retry_after_ms: 5000 });
  Line.last.cut(4430);
  expect(client.state).toMatchObject({
    name: 'reconnecting',
    reason: { ...error, closeCode: 4430, retryAfterMs: 5000 },
  });
});

test('an error of a newer gateway is not the reason of a close by a proxy', async () => {
  await client.join('kitchen');
  Line.last.say({ ...FORBIDDEN, code: 'not_now', message: 'Not now.' });
  Line.last.cut(1001);
  expect(client.state).toMatchObject({ name: 'reconnecting', reason: { code: 'going_away' } });
});

test.each([1001, 4408])('a refused join is not the reason of a close with %d', async (code) => {
  await expect(client.join('closed shop')).rejects.toMatchObject({ code: 'forbidden' });
  Line.last.cut(code);
  expect(client.state).toMatchObject({ name: 'reconnecting', reason: { closeCode: code } });
  await reconnect();
  expect(client.state.name).toBe('lobby');
});

test('a notice is not the reason of a close by a proxy', async () => {
  await client.join('kitchen');
  Line.last.say({ ...FORBIDDEN, message: 'The token does not allow publishing.' });
  Line.last.cut(1001);
  expect(client.state).toMatchObject({ name: 'reconnecting', reason: { code: 'going_away' } });
  await reconnect();
  expect(client.state.name).toBe('in_room');
});

test('an error after which the connection goes on: a fault, as soon as that is known', async () => {
  const faults: string[] = [];
  client.on('fault', (message) => faults.push(message));
  await client.join('kitchen');
  Line.last.say({ ...FORBIDDEN, message: 'The token does not allow publishing.' });
  expect(faults).toEqual([]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(faults).toEqual([expect.stringContaining('The token does not allow publishing.')]);
});

test('the handler of a button can call connect() again, as after a microphone that was denied', async () => {
  let isDenied = true;
  const open = () => (isDenied ? Promise.reject(new DOMException('Denied.')) : Promise.resolve());
  const press = async () => {
    await client.connect();
    await open();
    await client.join('kitchen');
  };
  await expect(press()).rejects.toThrow('Denied.');
  isDenied = false;
  await press();
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(Line.lines).toHaveLength(1);
});

test('connect() of a client that has ended is rejected, and does not throw', async () => {
  client.close();
  const refused = client.connect();
  await expect(refused).rejects.toMatchObject({ name: 'ClosedError', code: 'closed' });
});

/** Notes the faults that the client tells. */
function notedFaults(): string[] {
  const faults: string[] = [];
  client.on('fault', (message) => faults.push(message));
  return faults;
}

const UNLOADED = 'Unable to load a worklet module.';
/** Audio whose call fails a number of times, as when a file is not loaded. @param loadMs time until it fails */
const failing = (call: 'opened' | 'applyMicrophone', times: number, loadMs = 0) => {
  let calls = 0;
  special = () => ({
    [call]: () => {
      calls += 1;
      if (calls > times) return Promise.resolve();
      const fault = new DOMException(UNLOADED);
      if (loadMs === 0) return Promise.reject(fault);
      return new Promise((_resolve, reject) => setTimeout(() => reject(fault), loadMs));
    },
  });
  return () => calls;
};

/** Breaks the connection; the gateway does not keep the place. */
const loseAll = () => {
  Line.room = undefined;
  Line.last.cut();
};

test('audio files that do not load as a room is joined again are loaded later', async () => {
  const faults = notedFaults();
  await client.join('kitchen');
  for (let i = 0; i < 5; i += 1) {
    const calls = failing('opened', 3);
    loseAll();
    // Up to 7.5 s of delays, and longer in the room than a connection must last to count.
    await vi.advanceTimersByTimeAsync(20_000);
    expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
    expect(calls()).toBe(4);
  }
  expect(faults).toEqual([]);
});

test('an outage between two joins for which audio files do not load does not count', async () => {
  const faults = notedFaults();
  await client.join('kitchen');
  const calls = failing('opened', 2);
  loseAll();
  await vi.advanceTimersByTimeAsync(500);
  expect(calls()).toBe(1);
  Line.isUp = false;
  await vi.advanceTimersByTimeAsync(90_000);
  Line.isUp = true;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(calls()).toBe(3);
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(faults).toEqual([]);
});

test('audio files that never load again: the room is given up after a while, and the user told to reload the page', async () => {
  const faults = notedFaults();
  await client.join('kitchen');
  // So that a connection lasts for a while, as it does in a network.
  failing('opened', Infinity, 20);
  loseAll();
  await vi.advanceTimersByTimeAsync(50_000);
  expect(client.state.name).not.toBe('lobby');
  await vi.advanceTimersByTimeAsync(120_000);
  expect(client.state).toEqual({ name: 'lobby' });
  expect(faults).toEqual([`Reload the page to return to the room. ${UNLOADED}`]);
  expect(sent()).toContain('leave');
});

test('audio files that load too slowly: the room is given up about a minute after the first failure', async () => {
  const faults = notedFaults();
  await client.join('kitchen');
  const calls = failing('opened', Infinity, 30_000);
  loseAll();
  // Two attempts of 30 s, and the beginning of a third one.
  await vi.advanceTimersByTimeAsync(70_000);
  expect(client.state.name).not.toBe('lobby');
  await vi.advanceTimersByTimeAsync(25_000);
  expect(calls()).toBe(3);
  expect(client.state).toEqual({ name: 'lobby' });
  expect(faults).toEqual([`Reload the page to return to the room. ${UNLOADED}`]);
});

test('an encoder that does not load is loaded again until it can be used', async () => {
  const faults = notedFaults();
  const calls = failing('applyMicrophone', 3);
  const track = Object.assign(new EventTarget(), { readyState: 'live', muted: false });
  await client.join('kitchen', track as unknown as MediaStreamTrack);
  expect(faults).toEqual([`You cannot be heard: ${UNLOADED}`]);
  await vi.advanceTimersByTimeAsync(250);
  expect(client.state).toMatchObject({ trouble: `Nobody hears you: ${UNLOADED}` });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(client.state).not.toHaveProperty('trouble');
  expect(calls()).toBe(4);
  expect(faults).toHaveLength(1);
});

test('a microphone that the gateway refuses is not tried again', async () => {
  let calls = 0;
  special = () => ({
    applyMicrophone: () => {
      calls += 1;
      return Promise.reject(new RequestError('forbidden', 'No.', false));
    },
  });
  const track = Object.assign(new EventTarget(), { readyState: 'live', muted: false });
  await client.join('kitchen', track as unknown as MediaStreamTrack);
  await vi.advanceTimersByTimeAsync(30_000);
  expect(calls).toBe(1);
});

test('a microphone that the gateway refuses for now is tried again until it is taken', async () => {
  let calls = 0;
  const refusal = new RequestError('rate_limited', 'Too many messages of the account.', true);
  special = () => ({
    applyMicrophone: () => {
      calls += 1;
      return calls > 3 ? Promise.resolve() : Promise.reject(refusal);
    },
  });
  const track = Object.assign(new EventTarget(), { readyState: 'live', muted: false });
  await client.join('kitchen', track as unknown as MediaStreamTrack);
  await vi.advanceTimersByTimeAsync(250);
  expect(client.state).toMatchObject({ trouble: `Nobody hears you: ${refusal.message}` });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(client.state).not.toHaveProperty('trouble');
  expect(calls).toBe(4);
});

test('settings that the gateway refuses in a join are a fault, and the room is joined', async () => {
  const faults = notedFaults();
  const refusal = new RequestError('bad_message', 'configure: no such volume.', false);
  special = () => ({ applySettings: () => Promise.reject(refusal) });
  await client.join('kitchen');
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(faults).toEqual(['The settings were refused: configure: no such volume.']);
});

test('a join whose settings get no answer is repeated over the next connection', async () => {
  const faults = notedFaults();
  const silence = new RequestError('timeout', 'No answer.', true);
  special = () => ({ applySettings: () => Promise.reject(silence) });
  const joined = client.join('kitchen');
  await vi.advanceTimersByTimeAsync(0);
  expect(client.state).toMatchObject({ name: 'reconnecting', room: 'kitchen' });
  special = () => ({});
  await reconnect();
  await joined;
  expect(faults).toEqual([]);
});

test.each([
  ['an empty name', ''],
  ['a name that is reserved', '__lobby__'],
  ['two dots', '..'],
  ['a control character', 'ada\n'],
  ['half of a character', 'ada\ud83d'],
  ['more than 128 characters', 'ä'.repeat(129)],
])('a volume for %s is refused at once, and not kept', async (_, peer) => {
  expect(() => checkName(peer, 'peer', 'bad_message')).toThrow('must');
  await expect(client.setVolume(peer, 0.5)).rejects.toThrow(RangeError);
  expect(client.volumeOf(peer)).toBe(1);
});

test.each(['ada', '🎧'.repeat(128), 'a..b', '_'])('a volume for %s is kept', async (peer) => {
  expect(checkName(peer, 'peer', 'bad_message')).toBe(peer);
  await client.setVolume(peer, 0.5);
  expect(client.volumeOf(peer)).toBe(0.5);
});

const LEFT = { type: 'left', room: 'kitchen', reason: 'minutes_exhausted' };
/** Two ways to lose a room for good, each of which is a fault. */
const losses: [string, () => void][] = [
  [
    'the gateway ends the stay',
    () => {
      Line.room = undefined;
      Line.last.say(LEFT);
    },
  ],
  [
    'the room is refused when it is joined again',
    () => {
      special = () => ({
        opened: () => Promise.reject(new RequestError('forbidden', 'No.', false)),
      });
      loseAll();
    },
  ],
];

const EXHAUSTED = {
  type: 'error',
  code: 'minutes_exhausted',
  message: 'New ones are available from 2026-12-01 on.',
  retryable: false,
};

test('a room that ends with its connection: the reason of the close, and no fault', async () => {
  const faults = notedFaults();
  await client.join('kitchen');
  Line.last.say(LEFT);
  Line.last.say(EXHAUSTED);
  await vi.advanceTimersByTimeAsync(900);
  Line.last.cut(4402);
  const { code, message } = EXHAUSTED;
  expect(client.state).toMatchObject({ name: 'closed', reason: { code, message } });
  expect(faults).toEqual([]);
});

test.each<[string, () => unknown]>([
  ['a second later', () => vi.advanceTimersByTimeAsync(1000)],
  ['with the next message', () => Line.last.say({ type: 'peer_left', peer: 'bob' })],
])('a room whose connection goes on is over %s', async (_, goOn) => {
  const faults = notedFaults();
  await client.join('kitchen');
  Line.room = undefined;
  Line.last.say(LEFT);
  Line.last.say(EXHAUSTED);
  await goOn();
  expect(client.state).toEqual({ name: 'lobby' });
  expect(faults).toEqual([expect.stringContaining('removed you from the room')]);
});

test.each(losses)('close() in a listener that is told that %s ends the client', async (_, lose) => {
  await client.join('kitchen');
  client.on('fault', () => client.close());
  const states: string[] = [];
  client.on('change', ({ name }) => states.push(name));
  lose();
  await reconnect();
  expect(client.state.name).toBe('closed');
  expect(states.filter((name) => name === 'lobby' || name === 'closed')).toEqual(['closed']);
});

test.each(losses)('join() in a listener that is told that %s joins', async (_, lose) => {
  await client.join('kitchen');
  const joined = new Promise<void>((resolve, reject) => {
    client.on('fault', () => {
      special = () => ({});
      client.join('hall').then(resolve, reject);
    });
  });
  lose();
  await reconnect();
  await joined;
  expect(client.state).toMatchObject({ name: 'in_room', room: 'hall' });
  expect(Line.room).toBe('hall');
});

test.each(losses)('a listener is told that %s before the lobby', async (_, lose) => {
  await client.join('kitchen');
  const told: string[] = [];
  client.on('fault', () => told.push('fault'));
  client.on('change', ({ name }) => told.push(name));
  lose();
  await reconnect();
  expect(told.slice(-2)).toEqual(['fault', 'lobby']);
});

test('close() in a listener that is told that the client connects ends it', async () => {
  client.close();
  client = new PartylineClient({ peer: 'ada', getToken: () => Promise.resolve('token') });
  client.on('change', () => client.close());
  await expect(client.connect()).rejects.toMatchObject({ name: 'ClosedError' });
  await vi.advanceTimersByTimeAsync(0);
  expect(vi.getTimerCount()).toBe(0);
});

/** Has the audio tell a change as its room is resumed, and a listener react to the first one. */
async function resumeWith(react: () => Promise<void>): Promise<void> {
  special = ({ handlers }) => ({ resume: () => handlers.trackChanged('bob') });
  let done: Promise<void> | undefined;
  Line.peers = [{ peer: 'bob', kind: 'websocket', speaker: 2, muted: false }];
  await client.join('kitchen');
  Line.last.cut();
  const stop = client.on('change', () => {
    if (Line.lines.length < 2) return; // the next connection is not open yet
    stop();
    done = react();
  });
  await reconnect();
  await done;
}

test('leave() in a listener that is told of a change as the room is resumed leaves it', async () => {
  await resumeWith(() => client.leave());
  expect(client.state).toEqual({ name: 'lobby' });
  expect(Line.room).toBeUndefined();
});

test('join() in a listener that is told of a change as the room is resumed joins', async () => {
  await resumeWith(() => client.join('hall'));
  expect(client.state).toMatchObject({ name: 'in_room', room: 'hall' });
  expect(Line.room).toBe('hall');
});

test('close() in a listener that is told of a mute by an operator ends the client', async () => {
  Line.mute = true;
  Line.last.cut();
  const stop = client.on('change', () => {
    if (!client.muted) return;
    stop();
    client.close();
  });
  await reconnect();
  expect(client.state.name).toBe('closed');
});

test('a room whose audio is lost as it is resumed is joined again', async () => {
  const faults = notedFaults();
  const lost = new RequestError('no_path', 'The path is lost.', true);
  let isClosed = false;
  special = ({ handlers }) => ({
    resume: () => handlers.lost(lost),
    close: () => void (isClosed = true),
  });
  await client.join('kitchen');
  Line.last.cut();
  special = () => ({});
  await reconnect();
  expect({ faults, isClosed }).toEqual({ faults: [lost.message], isClosed: true });
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(sent()).toEqual(['join']);
});
