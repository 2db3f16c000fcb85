import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { PartylineClient } from '../../../../packages/client/src/client.ts';
import type { SendRequest } from '../../../../packages/client/src/connection.ts';
import { hearMute, tellMute } from '../../../../packages/client/src/muting.ts';
import type {
  AudioParts,
  RoomAudio,
  SoundSettings,
} from '../../../../packages/client/src/room-audio.ts';
import { WebRtcAudio } from '../../../../packages/client/src/webrtc/webrtc-audio.ts';
import { WebSocketAudio } from '../../../../packages/client/src/websocket/websocket-audio.ts';

/** Mutes by the user and by an operator, the microphone of a refused join, and refused speakers, as the browser client sees them. The test is the gateway; Node has no audio of browsers. */

/** Settings that the audio was told to apply. */
let applied: { muted: boolean; toldMuted: boolean }[];
/** Speakers that the audio was told to apply; it refuses those that are broken. */
let speakers: string[];
/** Microphone of the settings at the moment. */
let microphoneNow: () => MediaStreamTrack | null;

const openAudio = ({ settings }: AudioParts): RoomAudio => {
  microphoneNow = () => settings.microphone;
  return audioWith(settings);
};
const audioWith = (settings: SoundSettings): RoomAudio => ({
  transport: 'websocket',
  openedMs: 0,
  isPathBroken: false,
  isStopped: false,
  isPlaybackBlocked: false,
  hasPath: true,
  unsent: undefined,
  mixTrack: undefined,
  opened: () => Promise.resolve(),
  applyMicrophone: () => Promise.resolve(),
  prove: () => Promise.resolve(),
  applySettings: () => Promise.resolve(),
  applyMuted: () => {
    applied.push({ muted: settings.muted, toldMuted: settings.toldMuted });
    return Promise.resolve();
  },
  applyVolume: () => Promise.resolve(),
  applySpeaker: () => {
    speakers.push(settings.speakerId);
    const isBroken = settings.speakerId === 'broken';
    return isBroken ? Promise.reject(new Error('No such device.')) : Promise.resolve();
  },
  trackOf: () => undefined,
  receive: () => undefined,
  resume: () => undefined,
  resumePlayback: () => undefined,
  counters: () => Promise.reject(new Error('nobody asks')),
  packetsReceived: () => Promise.reject(new Error('nobody asks')),
  rtcStats: () => Promise.resolve(undefined),
  setHurried: () => undefined,
  retire: () => undefined,
  close: () => undefined,
});
vi.mock('../../../../packages/client/src/load-audio.ts', () => ({
  loadAudio: () => Promise.resolve(openAudio),
}));

/** The gateway's end of a WebSocket: lets the client in, and into any room but one. */
class Line extends EventTarget {
  static readonly OPEN = 1;
  static last: Line;
  readonly readyState = Line.OPEN;
  readonly bufferedAmount = 0;
  isClosed = false;

  constructor() {
    super();
    Line.last = this;
    const welcome = { session_id: 's', resume_token: 't', network: '192.0.2.0/24', resume_ms: 0 };
    queueMicrotask(() => this.say({ type: 'welcome', room: '__lobby__', ...welcome }));
  }

  send(text: string): void {
    const { type, room, id } = JSON.parse(text) as { type: string; room: string; id: string };
    if (type !== 'join') return;
    const refused = { type: 'error', code: 'forbidden', message: 'No.', retryable: false };
    const joined = { type: 'joined', room, speaker: 1, peers: [] };
    const answer = room === 'closed shop' ? refused : joined;
    queueMicrotask(() => this.say({ ...answer, reply_to: id }));
  }

  say(message: object): void {
    this.dispatchEvent(new MessageEvent('message', { data: JSON.stringify(message) }));
  }

  close(): void {
    this.isClosed = true;
  }
}

const AUDIO = { in: 'opus', out: 'opus', delivery: 'mix' };
/** Has the gateway say unasked whether the client is muted. */
const say = (mute: boolean) =>
  Line.last.say({ type: 'configured', audio: AUDIO, volume: {}, mute });

let client: PartylineClient;
/** The browser’s devices: none. */
let mediaDevices: EventTarget;

beforeEach(async () => {
  const enumerateDevices = () => Promise.resolve([]);
  mediaDevices = Object.assign(new EventTarget(), { enumerateDevices });
  vi.stubGlobal('navigator', { mediaDevices });
  applied = [];
  speakers = [];
  vi.stubGlobal('location', { href: 'https://voice.example.com/' });
  vi.stubGlobal('WebSocket', Line);
  const events = { addEventListener: () => undefined, removeEventListener: () => undefined };
  const timers = { setTimeout, clearTimeout, setInterval, clearInterval };
  vi.stubGlobal('window', { ...timers, ...events });
  client = new PartylineClient({
    peer: 'ada',
    getToken: () => Promise.resolve('token'),
    transports: ['websocket'],
  });
  await client.connect();
});
afterEach(() => {
  client.close();
  if (!Line.last.isClosed) throw new Error('The client has left its socket open.');
  vi.unstubAllGlobals();
});

test('a mute by an operator is shown, silences the audio, and is ended by the user', async () => {
  await client.join('kitchen');
  const shown: boolean[] = [];
  client.on('change', () => shown.push(client.muted));
  say(true);
  expect(shown).toEqual([true]);
  expect(applied).toEqual([{ muted: true, toldMuted: true }]);
  await client.unmute();
  expect(client.muted).toBe(false);
  // The gateway was told of none: the audio tells it by `configure`.
  expect(applied.at(-1)).toEqual({ muted: false, toldMuted: true });
});

test('an operator ends a mute of its own', async () => {
  await client.join('kitchen');
  say(true);
  say(false);
  expect(client.muted).toBe(false);
  expect(applied.at(-1)).toEqual({ muted: false, toldMuted: false });
});

test('an operator does not end a mute of the user’s: the gateway is told of it again', async () => {
  await client.join('kitchen');
  await client.mute();
  say(true);
  say(false);
  expect(client.muted).toBe(true);
  expect(applied.at(-1)).toEqual({ muted: true, toldMuted: false });
});

test('a mute in the lobby holds in the room', async () => {
  say(true);
  expect(client.muted).toBe(true);
  await client.join('kitchen');
  expect(client.muted).toBe(true);
  await client.unmute();
  expect(applied).toEqual([{ muted: false, toldMuted: true }]);
});

test('a change of way tells whether the client is muted', async () => {
  await client.join('kitchen');
  Line.last.say({ type: 'media_changed', kind: 'websocket', volume: {}, mute: true });
  expect(client.muted).toBe(true);
});

function settingsWith(known: Partial<SoundSettings>): SoundSettings {
  const told = { toldMuted: false, pendingMutes: 0, answeredMuted: false };
  const unmuted = { muted: false, ...told, isMutedByGateway: false };
  return { microphone: null, volumes: new Map(), speakerId: '', ...unmuted, ...known };
}

test.each([true, false])(
  'a mute that the gateway states before it knows the user’s choice (muted: %s) does not count',
  async (muted) => {
    const answer = Promise.withResolvers<never>();
    const request: SendRequest = () => answer.promise;
    const ours = settingsWith({ muted, toldMuted: !muted });
    const told = tellMute(request, ours);
    expect(hearMute(ours, !muted)).toBe(false);
    expect(ours).toMatchObject({ muted, toldMuted: muted });
    answer.resolve({} as never);
    await told;
    expect(hearMute(ours, !muted)).toBe(true);
  },
);

test('a mute that the gateway refuses is to be told again; what the last answer says holds', async () => {
  const ours = settingsWith({ muted: false, toldMuted: true });
  const refused = new Error('Too many messages.');
  await expect(tellMute(() => Promise.reject(refused), ours)).rejects.toThrow(refused);
  expect(ours.toldMuted).toBe(true);
  const [first, second] = [Promise.withResolvers<never>(), Promise.withResolvers<never>()];
  const unmuting = tellMute(() => first.promise, ours);
  ours.muted = true;
  const muting = tellMute(() => second.promise, ours);
  first.resolve({} as never);
  await unmuting;
  expect(ours.toldMuted).toBe(true);
  second.reject(refused);
  await expect(muting).rejects.toThrow(refused);
  expect(ours).toMatchObject({ toldMuted: false, pendingMutes: 0 });
});

test('sound over the WebSocket: an unmute that is refused is sent by the next one', async () => {
  const sent: object[] = [];
  const request = (message: object) => {
    sent.push(message);
    return sent.length === 1 ? Promise.reject(new Error('Too many messages.')) : Promise.resolve();
  };
  const audio = new WebSocketAudio({
    wire: { request },
    settings: settingsWith({ muted: false, toldMuted: true }),
    assets: {},
    handlers: {},
  } as unknown as AudioParts);
  // There is no Web Audio in Node; what is told of mutes needs none.
  await expect(audio.opened()).rejects.toThrow('AudioContext');
  await expect(audio.applyMuted()).rejects.toThrow('Too many messages.');
  await audio.applyMuted();
  await audio.applyMuted();
  const unmute = { type: 'configure', mute: false };
  expect(sent).toEqual([unmute, unmute]);
  audio.close();
});

test('over WebRTC the user ends an operator’s mute by configure', async () => {
  const sent: object[] = [];
  const request = (message: object) => {
    sent.push(message);
    return Promise.resolve({});
  };
  const ours = settingsWith({});
  hearMute(ours, true);
  const audio = new WebRtcAudio({
    joined: { type: 'joined', room: 'kitchen', speaker: 1, peers: [], webrtc: {} },
    wire: { request },
    settings: ours,
    assets: {},
    handlers: {},
  } as unknown as AudioParts);
  // There is no WebRTC in Node; what is told of mutes needs none.
  await expect(audio.opened()).rejects.toThrow('device not supported');
  await audio.applyMuted();
  expect(sent).toEqual([]);
  ours.muted = false;
  await audio.applyMuted();
  expect(sent).toEqual([{ type: 'configure', mute: false }]);
  audio.close();
});

test('a join that is refused leaves the microphone as it was', async () => {
  const [one, other] = [new EventTarget(), new EventTarget()] as MediaStreamTrack[];
  await client.join('kitchen', one);
  await expect(client.join('closed shop', other)).rejects.toMatchObject({ code: 'forbidden' });
  expect(microphoneNow()).toBe(one);
  await client.join('hall', other);
  expect(microphoneNow()).toBe(other);
});

test('speakers that the browser refuses: those before them are applied again', async () => {
  await client.join('kitchen');
  await client.setSpeaker('headset');
  await expect(client.setSpeaker('broken')).rejects.toThrow('No such device.');
  expect(speakers).toEqual(['headset', 'broken', 'headset']);
  const refused = client.setSpeaker('broken');
  await client.setSpeaker('desk');
  await expect(refused).rejects.toThrow('No such device.');
  expect(speakers.slice(3)).toEqual(['broken', 'desk']);
});

test('speakers that are unplugged are not gone back to when the browser refuses others', async () => {
  const { promise: gone, resolve } = Promise.withResolvers<void>();
  client.on('fault', () => resolve());
  await client.join('kitchen');
  await client.setSpeaker('headset');
  mediaDevices.dispatchEvent(new Event('devicechange'));
  await gone;
  await expect(client.setSpeaker('broken')).rejects.toThrow('No such device.');
  expect(speakers).toEqual(['headset', '', 'broken', '']);
});
