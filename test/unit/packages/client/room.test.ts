import { setImmediate } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import type { Connection, MessageOf } from '../../../../packages/client/src/connection.ts';
import { RequestError } from '../../../../packages/client/src/errors.ts';
import type { RoomAudio, SoundSettings } from '../../../../packages/client/src/room-audio.ts';
import { Room } from '../../../../packages/client/src/room.ts';
import { Wire } from '../../../../packages/client/src/wire.ts';
import type { ServerMessage } from '../../../../src/protocol/messages.ts';

/** One stay in a room of the browser client, in virtual time; connection and audio are the test's. */

type Peers = MessageOf<'joined'>['peers'];

const SETTINGS: SoundSettings = {
  microphone: null,
  muted: false,
  volumes: new Map(),
  speakerId: '',
  toldMuted: false,
  pendingMutes: 0,
  answeredMuted: false,
  isMutedByGateway: false,
};
const ASSETS = { worklet: '', decoder: '', encoder: '' };
const BOB = { peer: 'bob', kind: 'websocket', speaker: 2, muted: false } as const;
const JOINED = { type: 'joined', room: 'kitchen', speaker: 1, peers: [BOB] as Peers } as const;

function openRoom() {
  const settings = { ...SETTINGS, volumes: new Map<string, number>() };
  const sent: string[] = [];
  // Its requests are never answered.
  const request = (message: { type: string }): Promise<unknown> => {
    sent.push(message.type);
    return new Promise(() => undefined);
  };
  const line = { heardMs: 0, request, fail: () => undefined };
  const connection = line as unknown as Connection;
  const sound = {
    transport: 'webrtc',
    hasPath: true,
    isPathBroken: false,
    isPlaybackBlocked: false,
    received: 0,
  };
  /** Peers whose volume was applied. */
  const applied: string[] = [];
  /** Steps of the audio's end. */
  const ends: string[] = [];
  const audio = Object.assign(sound, {
    applyVolume: async (peer: string) => void applied.push(peer),
    packetsReceived: () => Promise.resolve(sound.received),
    trackOf: () => undefined,
    receive: () => undefined,
    resume: () => undefined,
    setHurried: (isHurried: boolean) => void ends.push(isHurried ? 'hurry' : 'steady'),
    retire: () => void ends.push('retire'),
    close: () => void ends.push('close'),
  });
  const faults: string[] = [];
  const room = new Room({
    self: 'ada',
    connection,
    joined: JOINED,
    openAudio: () => audio as unknown as RoomAudio,
    settings,
    assets: ASSETS,
    handlers: {
      changed: () => undefined,
      flowChanged: () => undefined,
      fault: (message) => faults.push(message),
      playbackBlocked: () => undefined,
      mediaLost: () => undefined,
    },
  });
  room.isReady = true;
  let nowMs = 0;
  /**
   * Looks at the room four times a second until a moment, while the gateway sends text all the time.
   * @param each called before each look; by default a message comes
   */
  const lookUntil = async (endMs: number, each = () => void (line.heardMs = nowMs)) => {
    let health = await room.health(nowMs);
    while (nowMs < endMs) {
      nowMs += 250;
      each();
      health = await room.health(nowMs);
    }
    return health;
  };
  /** The connection is lost, and another is there after a while; nobody looks at the room meanwhile. */
  const reconnect = (afterMs: number) => {
    room.suspend();
    nowMs += afterMs;
    line.heardMs = nowMs;
    room.resume(connection, { ...JOINED, consumers: [] });
  };
  return { room, line, settings, sound, applied, ends, faults, sent, lookUntil, reconnect };
}

const speaking = (...peers: MessageOf<'speaking'>['peers']): ServerMessage => ({
  type: 'speaking',
  peers,
});

test('a speaker without a level is not waited for: it sends an unknown format, which browsers do not get', async () => {
  const { room, lookUntil } = openRoom();
  room.receive(speaking({ peer: 'bob' }));
  expect(await lookUntil(10_000)).toMatchObject({ isOneWay: false });
  expect(room.trouble).toBeUndefined();
});

test('only others count as speaking', async () => {
  const { room, lookUntil } = openRoom();
  room.receive(speaking({ peer: 'ada', level_dbov: -20 }));
  expect(await lookUntil(10_000)).toMatchObject({ isOneWay: false });
  room.receive(speaking({ peer: 'ada', level_dbov: -20 }, { peer: 'bob', level_dbov: -30 }));
  expect(await lookUntil(12_000)).toMatchObject({ isOneWay: true });
  expect(room.trouble).toContain('You do not hear the others');
});

test('a speaker whose volume here is 0 is not waited for', async () => {
  const { room, settings, sound, lookUntil } = openRoom();
  sound.transport = 'websocket';
  settings.volumes.set('bob', 0);
  room.receive(speaking({ peer: 'bob', level_dbov: -30 }));
  await lookUntil(10_000);
  expect(room.trouble).toBeUndefined();
  settings.volumes.set('bob', 0.5);
  await lookUntil(12_000);
  expect(room.trouble).toContain('You do not hear the others');
});

test('a speaker that may have fallen silent since the WebSocket died is no reason to leave WebRTC', async () => {
  const { room, line, sound, sent, lookUntil } = openRoom();
  room.receive(speaking({ peer: 'bob', level_dbov: -30 }));
  const flows = () => void (sound.received += 12);
  await lookUntil(10_000, () => {
    flows();
    line.heardMs = 10_000;
  });
  // The WebSocket dies. Bob talks for 3 s more.
  await lookUntil(13_000, flows);
  expect(sent).toEqual([]);
  const nothing = () => undefined;
  expect(await lookUntil(15_000, nothing)).toMatchObject({ isOneWay: false });
  expect(room.trouble).toBeUndefined();
  expect(sent).toEqual(['configure']);
  expect(room.isAsking).toBe(true);
  expect(room.suspend()).toBe(true);
});

test('a speaker that the gateway still names when asked counts as missing', async () => {
  const { room, line, lookUntil } = openRoom();
  room.receive(speaking({ peer: 'bob', level_dbov: -30 }));
  let asked = 0;
  line.request = () => {
    asked += 1;
    line.heardMs = 1500;
    return Promise.resolve();
  };
  const nothing = () => undefined;
  expect(await lookUntil(1500, nothing)).toMatchObject({ isOneWay: false });
  expect(await lookUntil(2500, nothing)).toMatchObject({ isOneWay: true });
  expect({ asked, isAsking: room.isAsking }).toEqual({ asked: 1, isAsking: false });
});

test('faults found before the connection was lost do not count after it', async () => {
  const { room, sound, lookUntil, reconnect } = openRoom();
  sound.isPathBroken = true;
  await lookUntil(2000);
  expect(room.trouble).toContain('the path to the gateway is broken');
  expect(room.isInterrupted).toBe(true);
  sound.isPathBroken = false;
  reconnect(5000);
  expect(room.trouble).toBeUndefined();
  expect(room.isInterrupted).toBe(false);
});

test('others that speak before and after a loss of the connection are not taken for silent meanwhile', async () => {
  const { room, lookUntil, reconnect } = openRoom();
  const bob = speaking({ peer: 'bob', level_dbov: -30 });
  room.receive(bob);
  await lookUntil(500);
  reconnect(5000);
  room.receive(bob);
  expect(await lookUntil(6500)).toMatchObject({ isOneWay: false });
  expect(await lookUntil(7250)).toMatchObject({ isOneWay: true });
});

test('a client without a microphone is not told that nobody hears it, nor one that has just taken one', async () => {
  const stopped = { type: 'rtp_flow', state: 'stopped' } as const;
  const { room, settings, lookUntil } = openRoom();
  room.receive(stopped);
  expect(await lookUntil(5000)).toMatchObject({ isOneWay: false });
  settings.microphone = {} as MediaStreamTrack;
  expect(await lookUntil(7000)).toMatchObject({ isOneWay: false });
  expect(room.trouble).toBeUndefined();
  // The gateway has had time to tell that packets come.
  expect(await lookUntil(8000)).toMatchObject({ isOneWay: true });
  expect(room.trouble).toBeDefined();
});

test('packets that the gateway missed before the connection was lost may have come meanwhile', async () => {
  const { room, settings, lookUntil, reconnect } = openRoom();
  settings.microphone = { readyState: 'live', muted: false } as MediaStreamTrack;
  room.receive({ type: 'rtp_flow', state: 'stopped' });
  expect(await lookUntil(5000)).toMatchObject({ isOneWay: true });
  reconnect(3000);
  expect(await lookUntil(20_000)).toMatchObject({ isOneWay: false });
  expect(room.trouble).toBeUndefined();
  room.receive({ type: 'rtp_flow', state: 'stopped' });
  expect(await lookUntil(20_250)).toMatchObject({ isOneWay: true });
});

test('a microphone that the system mutes is told after a second, and is no reason to change the way', async () => {
  const { room, settings, lookUntil } = openRoom();
  const microphone = { readyState: 'live', muted: false };
  settings.microphone = microphone as MediaStreamTrack;
  await lookUntil(5000);
  microphone.muted = true;
  room.receive({ type: 'rtp_flow', state: 'stopped' });
  await lookUntil(5750);
  expect(room.trouble).toBeUndefined();
  expect(await lookUntil(10_000)).toMatchObject({ isBroken: false, isOneWay: false });
  expect(room.trouble).toContain('has muted the microphone');
  settings.muted = true;
  await lookUntil(10_250);
  expect(room.trouble).toBeUndefined();
  settings.muted = false;
  await lookUntil(11_500);
  expect(room.trouble).toContain('has muted the microphone');
  microphone.muted = false;
  await lookUntil(11_750);
  expect(room.trouble).toBeUndefined();
});

const MESSAGE = 'The token does not allow publishing.';
test.each<[string, (room: Room) => unknown]>([
  [
    'unasked',
    (room) =>
      room.receive({ type: 'error', code: 'forbidden', message: MESSAGE, retryable: false }),
  ],
  [
    'as an answer',
    (room) =>
      room
        .apply(() => Promise.reject(new RequestError('forbidden', MESSAGE, false)))
        .catch((error: unknown) => error),
  ],
])(
  'a refusal of its audio that is told %s is the trouble of a client for as long as it would speak',
  async (_, refuse) => {
    const { room, settings, lookUntil } = openRoom();
    settings.microphone = { readyState: 'live', muted: false } as MediaStreamTrack;
    await refuse(room);
    expect(await lookUntil(1000)).toMatchObject({ isOneWay: false });
    expect(room.trouble).toBe(`Nobody hears you: ${MESSAGE}`);
    settings.muted = true;
    await lookUntil(2000);
    expect(room.trouble).toBeUndefined();
    settings.muted = false;
    await lookUntil(3000);
    expect(room.trouble).toBe(`Nobody hears you: ${MESSAGE}`);
  },
);

test('playback that waits for a click is told until it runs', async () => {
  const { room, sound, lookUntil } = openRoom();
  sound.isPlaybackBlocked = true;
  await lookUntil(250);
  expect(room.isPlaybackBlocked).toBe(false);
  expect(await lookUntil(1000)).toMatchObject({ isBroken: false, isOneWay: false });
  expect(room.isPlaybackBlocked).toBe(true);
  expect(room.trouble).toContain('only after a click');
  sound.isPlaybackBlocked = false;
  await lookUntil(1250);
  expect(room).toMatchObject({ isPlaybackBlocked: false, trouble: undefined });
});

test('a client that speaks and may not is told that it cannot be heard', () => {
  const { room, faults } = openRoom();
  const message = 'The token does not allow publishing.';
  room.receive({ type: 'error', code: 'forbidden', message, retryable: false });
  expect(faults).toEqual([`You cannot be heard: ${message}`]);
  room.receive({ type: 'error', code: 'rate_limited', message: 'Slower.', retryable: true });
  expect(faults).toHaveLength(1);
});

test('a change of the transport that is not answered has been made', async () => {
  vi.useFakeTimers();
  const { room, line } = openRoom();
  line.request = () => Promise.resolve(JOINED);
  const audio = { opened: () => Promise.resolve(), prove: () => Promise.resolve() };
  const applied = {
    applySettings: () => Promise.resolve(),
    applyMicrophone: () => Promise.resolve(),
  };
  const next = { ...audio, ...applied, transport: 'websocket', trackOf: () => undefined };
  const changed = room.change('websocket', () => next as unknown as RoomAudio);
  await vi.advanceTimersByTimeAsync(15_000);
  await changed;
  expect(room.audio.transport).toBe('websocket');
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

/** A room whose audio goes over to another transport. */
function changing() {
  const opened = openRoom();
  const { room, line, sound } = opened;
  sound.transport = 'websocket';
  line.request = () => Promise.resolve(JOINED);
  let pathChanged: (() => void) | undefined;
  const next = {
    transport: 'webrtc',
    hasPath: true,
    searchedMs: 0,
    opened: () => Promise.resolve(),
    prove: () => Promise.resolve(),
    applySettings: () => Promise.resolve(),
    applyMicrophone: () => Promise.resolve(),
    applyVolume: () => Promise.resolve(),
    trackOf: () => undefined,
    close: () => undefined,
  };
  const changed = room.change('webrtc', ({ handlers }) => {
    pathChanged = handlers.pathChanged;
    return next as unknown as RoomAudio;
  });
  const connect = async (hasPath: boolean) => {
    await setImmediate(); // `joined` has been handled
    expect(pathChanged).toBeDefined();
    next.hasPath = hasPath;
    pathChanged!();
  };
  return { ...opened, changed, connect, next };
}

test('audio that another transport takes over is hurried once that is connected, and retired when it has', async () => {
  const { room, ends, changed, connect } = changing();
  await connect(false);
  await connect(true);
  expect(ends).toEqual(['steady', 'hurry']);
  room.receive({ type: 'media_changed', kind: 'webrtc', volume: {}, mute: false });
  await changed;
  expect(ends).toEqual(['steady', 'hurry', 'retire']);
  expect(room.audio.transport).toBe('webrtc');
  // A later change of the path does not hurry the audio that has been retired.
  await connect(true);
  room.close();
  expect(ends).toEqual(['steady', 'hurry', 'retire', 'close']);
});

const NOT_CHANGED = {
  type: 'error',
  code: 'media_lost',
  message: 'No.',
  retryable: true,
  reply_to: '1',
} as const;

test.each([
  { searchedMs: 9000, code: 'no_path' },
  // The gateway refused to connect the transports for most of the time.
  { searchedMs: 1000, code: 'media_lost' },
])(
  'a change that looked for a path for $searchedMs ms of its 10 s fails by $code',
  async ({ searchedMs, code }) => {
    const { room, changed, connect, next } = changing();
    const failed = changed.catch((error: unknown) => error);
    await connect(false);
    next.searchedMs = searchedMs;
    room.receive(NOT_CHANGED);
    expect(await failed).toMatchObject({ code });
  },
);

test.each([
  ['the gateway ends', (room: Room) => room.receive(NOT_CHANGED)],
  ['a lost connection ends', (room: Room) => void room.suspend()],
])('audio is hurried no longer when %s the change', async (_, end) => {
  const { room, ends, changed, connect } = changing();
  const failed = changed.catch((error: unknown) => error);
  await connect(true);
  end(room);
  expect(await failed).toBeInstanceOf(RequestError);
  expect(ends).toEqual(['hurry', 'steady']);
});

test('after a move to another room its frames are heard, although the room before is closed later', () => {
  const connection = { onFrame: undefined, fail: () => undefined } as unknown as Connection;
  const [before, after] = [new Wire(connection), new Wire(connection)];
  const hear = () => undefined;
  before.onFrame = () => undefined;
  after.onFrame = hear;
  before.onFrame = undefined;
  before.close();
  expect(connection.onFrame).toBe(hear);
  after.suspend();
  expect(connection.onFrame).toBeUndefined();
  // Without a connection.
  after.close();
});

test('a volume that was set before is applied when its peer comes, also while the connection is lost', () => {
  const { room, settings, applied, reconnect } = openRoom();
  settings.volumes.set('bob', 2).set('eve', 0);
  room.receive({ type: 'peer_joined', ...BOB, peer: 'eve' });
  room.receive({ type: 'peer_joined', ...BOB, peer: 'mallory' });
  expect(applied).toEqual(['eve']);
  reconnect(5000);
  expect(applied).toEqual(['eve', 'bob']);
});
