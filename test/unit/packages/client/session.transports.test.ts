import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PartylineClient } from '../../../../packages/client/src/client.ts';
import { RequestError } from '../../../../packages/client/src/errors.ts';
import type { AudioParts, RoomAudio } from '../../../../packages/client/src/room-audio.ts';
import type { Transport } from '../../../../packages/client/src/state.ts';
import { VirtualChannel } from '../../../support/virtual-channel.ts';

/** Changes of the transport that fail in part, and joins of a room in which the gateway has the client by the other transport. The test is the gateway; Node has no audio of browsers. */

/** Parts of the audio that differ in a test. */
let special: (transport: Transport, parts: AudioParts) => Partial<RoomAudio>;
const audioOf =
  (transport: Transport) =>
  (parts: AudioParts): Partial<RoomAudio> => ({
    transport,
    isPathBroken: false,
    isStopped: false,
    hasPath: true,
    opened: () => Promise.resolve(),
    prove: () => Promise.resolve(),
    applyMicrophone: () => Promise.resolve(),
    applySettings: () => Promise.resolve(),
    trackOf: () => undefined,
    receive: () => undefined,
    resume: () => undefined,
    setHurried: () => undefined,
    retire: () => undefined,
    close: () => undefined,
    ...special(transport, parts),
  });
vi.mock('../../../../packages/client/src/load-audio.ts', () => ({
  loadAudio: (transport: Transport) => Promise.resolve(audioOf(transport)),
}));

type Sent = { type: string; room?: string; media?: 'webrtc'; id: string };

/** The gateway's end of a WebSocket. */
class Line extends EventTarget {
  static readonly OPEN = 1;
  static last: Line;
  /** Place of the client. */
  static place: { room: string; kind: Transport } | undefined;
  /** Requests that came, with the transport of a join. */
  static requests: string[];
  /** Id of the `join` that has begun a change of transport. */
  static changing: string | undefined;
  /** Called when a change of the transport has begun. */
  static onChange: (kind: Transport) => void;
  static network: string;
  /** True if another node has the place: this one joins its room over the WebSocket, as if the client had asked for it. */
  static isElsewhere: boolean;
  readonly readyState = Line.OPEN;
  readonly bufferedAmount = 0;

  constructor() {
    super();
    Line.last = this;
    queueMicrotask(() => this.#welcome());
  }

  #welcome(): void {
    const { place, network, isElsewhere } = Line;
    const secrets = { session_id: 's', resume_token: 't', network };
    const room = place && !isElsewhere ? place.room : '__lobby__';
    this.say({ type: 'welcome', room, resumed: true, mute: false, ...secrets, resume_ms: 15_000 });
    if (!place) return;
    const consumers = place.kind === 'webrtc' ? { consumers: [] } : {};
    this.say({ type: 'joined', room: place.room, speaker: 1, peers: [], ...consumers });
  }

  send(text: string): void {
    const request = JSON.parse(text) as Sent;
    queueMicrotask(() => this.#answer(request));
  }

  #answer({ type, room = '', media, id }: Sent): void {
    const answer = (message: object) => this.say({ ...message, reply_to: id });
    const kind = media ?? 'websocket';
    if (type === 'join') {
      Line.requests.push(`join ${room} ${kind}`);
      if (room === 'closed shop') {
        answer({ type: 'error', code: 'forbidden', message: 'No.', retryable: false });
        return;
      }
      const isChange = Line.place?.room === room && Line.place.kind !== kind;
      Line.changing = isChange ? id : undefined;
      if (!isChange) Line.place = { room, kind };
      answer({ type: 'joined', room, speaker: 1, peers: [] });
      // The next message comes in a task of its own.
      if (isChange) setTimeout(() => Line.onChange(kind));
    } else if (type === 'leave') {
      Line.requests.push('leave');
      const left = Line.place?.room;
      Line.place = undefined;
      answer({ type: 'left', room: left });
    } else answer({ type: 'configured', audio: {}, volume: {}, mute: false });
  }

  /** Completes the change that has begun. */
  static change(kind: Transport): void {
    const reply_to = Line.changing;
    Line.place = Line.place && { ...Line.place, kind };
    Line.last.say({ type: 'media_changed', kind, volume: {}, mute: false, reply_to });
  }

  say(message: object): void {
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(message) }));
  }

  /** Ends the connection as if the network had broken it. */
  cut(): void {
    this.dispatchEvent(Object.assign(new Event('close'), { code: 1006, reason: '' }));
  }

  close(): void {}
}

let client: PartylineClient;
let faults: string[];

/** Opens a client in the lobby. */
async function open(transports: Transport[] = ['webrtc', 'websocket']): Promise<void> {
  client = new PartylineClient({
    peer: 'ada',
    getToken: () => Promise.resolve('token'),
    transports,
  });
  client.on('fault', (message) => faults.push(message));
  await client.connect();
}

beforeEach(async () => {
  vi.useFakeTimers();
  special = () => ({});
  faults = [];
  Line.place = undefined;
  Line.requests = [];
  Line.onChange = (kind) => Line.change(kind);
  Line.network = '192.0.2.0/24';
  Line.isElsewhere = false;
  vi.stubGlobal('location', { href: 'https://voice.example.com/' });
  vi.stubGlobal('WebSocket', Line);
  vi.stubGlobal('MessageChannel', VirtualChannel);
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  vi.stubGlobal('window', { setTimeout, clearTimeout, setInterval, clearInterval, ...events });
});
afterEach(() => {
  client.close();
  const timers = vi.getTimerCount();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  if (timers > 0) throw new Error('A timer is left.');
});

const UNLOADED = 'The browser could not load decoder-worker.js.';

/** Makes a microphone. */
const microphone = () =>
  Object.assign(new EventTarget(), {
    readyState: 'live',
    muted: false,
  }) as unknown as MediaStreamTrack;

test('a listener that has changed to the WebSocket before a file failed to load joins again over it', async () => {
  let opened = 0;
  special = (transport) => {
    if (transport === 'webrtc') return { hasPath: false };
    opened += 1;
    if (opened > 2) return {};
    const failure = new Promise<void>((_resolve, reject) => {
      setTimeout(() => reject(new Error(UNLOADED)), 300);
    });
    return { hasPath: false, opened: () => failure };
  };
  await open();
  await client.join('kitchen');
  await vi.advanceTimersByTimeAsync(20_000);
  expect(opened).toBe(3);
  expect(faults).toEqual([UNLOADED]);
  expect(client.state).toMatchObject({ name: 'in_room', transport: 'websocket' });
  expect(client.state).not.toHaveProperty('trouble');
});

test('a change of the transport whose microphone cannot be recorded is made, and the microphone tried again', async () => {
  let records = 0;
  const record = () => {
    records += 1;
    return records > 3 ? Promise.resolve() : Promise.reject(new Error(UNLOADED));
  };
  special = (transport) =>
    transport === 'webrtc' ? { hasPath: false } : { applyMicrophone: record };
  Line.onChange = (kind) => void setTimeout(() => Line.change(kind), 100);
  await open();
  await client.join('kitchen', microphone());
  await vi.advanceTimersByTimeAsync(3500);
  expect(client.state).toMatchObject({
    transport: 'websocket',
    trouble: `Nobody hears you: ${UNLOADED}`,
  });
  expect(faults).toEqual([UNLOADED]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(client.state).not.toHaveProperty('trouble');
  expect(records).toBe(4);
});

test('a join by WebRTC of a room in which the gateway has the client over the WebSocket leaves that place first', async () => {
  await open();
  Line.place = { room: 'kitchen', kind: 'websocket' };
  Line.last.cut();
  const joined = client.join('kitchen');
  await vi.advanceTimersByTimeAsync(1000);
  await joined;
  expect(Line.requests).toEqual(['leave', 'join kitchen webrtc']);
  expect(Line.changing).toBeUndefined();
});

test('so does one after audio over the WebSocket that the browser cannot play', async () => {
  special = (transport) =>
    transport === 'webrtc' ? {} : { opened: () => Promise.reject(new Error(UNLOADED)) };
  await open(['websocket', 'webrtc']);
  await client.join('kitchen');
  expect(Line.requests).toEqual(['join kitchen websocket', 'leave', 'join kitchen webrtc']);
  expect(client.state).toMatchObject({ transport: 'webrtc' });
});

test('a client whose place another node has, and which comes from another network, keeps it, and changes to WebRTC then', async () => {
  special = (transport) => (transport === 'webrtc' ? { hasPath: false } : {});
  await open();
  await client.join('kitchen');
  await vi.advanceTimersByTimeAsync(4000);
  expect(client.transport).toBe('websocket');
  special = () => ({});
  Line.requests = [];
  Line.isElsewhere = true;
  Line.network = '198.51.100.0/24';
  Line.last.cut();
  await vi.advanceTimersByTimeAsync(2000);
  expect(Line.requests).toEqual(['join kitchen websocket', 'join kitchen webrtc']);
  expect(client.state).toMatchObject({ name: 'in_room', transport: 'webrtc' });
});

test('a join over the WebSocket takes the place that the gateway has by WebRTC', async () => {
  special = (transport) =>
    transport === 'websocket' ? {} : { opened: () => Promise.reject(new Error(UNLOADED)) };
  await open();
  await client.join('kitchen');
  await vi.advanceTimersByTimeAsync(1000);
  expect(Line.requests).toEqual(['join kitchen webrtc', 'join kitchen websocket']);
  expect(Line.place).toEqual({ room: 'kitchen', kind: 'websocket' });
  expect(faults).toEqual([]);
});

test('a join that fails by both transports, because no file loads, is followed by one that tries both again', async () => {
  const failing = { opened: () => Promise.reject(new Error(UNLOADED)) };
  special = () => failing;
  await open();
  await expect(client.join('kitchen')).rejects.toThrow(UNLOADED);
  await vi.advanceTimersByTimeAsync(100);
  special = (transport) => (transport === 'websocket' ? failing : {});
  await client.join('kitchen');
  expect(client.state).toMatchObject({ name: 'in_room', transport: 'webrtc' });
});

/** Has the gateway give up the change that it has begun. */
const failChange = () =>
  Line.last.say({
    type: 'error',
    code: 'media_lost',
    message: 'No audio arrived.',
    retryable: true,
    reply_to: Line.changing,
  });

test('a place that the gateway keeps by WebRTC, because the audio over the WebSocket took long to open, is asked for again', async () => {
  let opened = 0;
  special = (transport) => {
    if (transport === 'webrtc') return { opened: () => Promise.reject(new Error(UNLOADED)) };
    opened += 1;
    return opened > 1 ? {} : { opened: () => new Promise(() => undefined) };
  };
  Line.onChange = () => undefined;
  await open();
  const joined = client.join('kitchen');
  await vi.advanceTimersByTimeAsync(10_000);
  Line.onChange = (kind) => Line.change(kind);
  failChange();
  await joined;
  await vi.advanceTimersByTimeAsync(1000);
  expect(Line.place).toEqual({ room: 'kitchen', kind: 'websocket' });
  expect(client.state).toMatchObject({ name: 'in_room', transport: 'websocket' });
});

test('a place over the WebSocket of which the client was not told is left once its change to WebRTC has failed', async () => {
  await open(['webrtc']);
  Line.place = { room: 'kitchen', kind: 'websocket' };
  Line.onChange = () => undefined;
  await client.join('kitchen');
  await vi.advanceTimersByTimeAsync(10_000);
  failChange();
  await vi.advanceTimersByTimeAsync(1000);
  expect(Line.requests).toEqual(['join kitchen webrtc', 'leave', 'join kitchen webrtc']);
  expect(Line.place).toEqual({ room: 'kitchen', kind: 'webrtc' });
});

test('a media worker that is lost while the client moves to another room, which is refused: the room before is joined again', async () => {
  await open(['webrtc']);
  await client.join('kitchen');
  const refused = client.join('closed shop');
  Line.last.say({ type: 'media_restarted' });
  await expect(refused).rejects.toMatchObject({ code: 'forbidden' });
  await vi.advanceTimersByTimeAsync(100);
  const joins = ['kitchen', 'closed shop', 'kitchen'].map((room) => `join ${room} webrtc`);
  expect(Line.requests).toEqual(joins);
});

/** Opens a client that speaks over WebRTC, and finds no path; its change to the WebSocket fails in the browser, and goes on in the gateway. */
async function failToChange(): Promise<void> {
  special = (transport) =>
    transport === 'webrtc'
      ? { hasPath: false }
      : { opened: () => Promise.reject(new Error(UNLOADED)) };
  Line.onChange = () => undefined;
  await open();
  await client.join('kitchen', microphone());
  await vi.advanceTimersByTimeAsync(3000);
  expect(Line.requests).toEqual(['join kitchen webrtc', 'join kitchen websocket']);
  expect(client.transport).toBe('webrtc');
  special = () => ({});
}

test('a change that the gateway has made, and the browser given up, ends in a join', async () => {
  await failToChange();
  Line.change('websocket');
  await vi.advanceTimersByTimeAsync(1000);
  expect(client.state.name).toBe('in_room');
  expect(client.transport).toBe(Line.place?.kind);
  expect(faults).toEqual(['The gateway has changed the transport of the audio.']);
});

test('a change that both have given up leaves the room as it was', async () => {
  await failToChange();
  failChange();
  await vi.advanceTimersByTimeAsync(1000);
  expect(client.state).toMatchObject({ name: 'in_room', transport: 'webrtc' });
  expect(Line.requests).toHaveLength(2);
  expect(faults).toEqual([]);
});

test('a path that is lost while the client moves to another room, which is refused, is looked for again', async () => {
  let lose: (() => void) | undefined;
  let microphoneNow: (() => unknown) | undefined;
  special = (_, { handlers, settings }) => {
    microphoneNow = () => settings.microphone;
    lose ??= () => handlers.lost(new RequestError('no_path', 'No path.', true));
    return {};
  };
  await open(['webrtc']);
  const track = microphone();
  await client.join('kitchen', track);
  const refused = client.join('closed shop');
  lose?.();
  await expect(refused).rejects.toMatchObject({ code: 'forbidden' });
  await vi.advanceTimersByTimeAsync(100);
  expect(client.state).toMatchObject({ name: 'in_room', room: 'kitchen' });
  expect(microphoneNow?.()).toBe(track);
  const joins = ['kitchen', 'closed shop', 'kitchen'].map((room) => `join ${room} webrtc`);
  expect(Line.requests).toEqual(joins);
});
