import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { RequestError } from '../../../../../packages/client/src/errors.ts';
import type { AudioParts, SoundSettings } from '../../../../../packages/client/src/room-audio.ts';
import type { ServerMessage } from '../../../../../src/protocol/messages.ts';
import { WebRtcAudio } from '../../../../../packages/client/src/webrtc/webrtc-audio.ts';

/** Audio of the browser client over WebRTC: its microphone, and its requests. Transports, producers and consumers are the test's: Node has no WebRTC. */

/** Tracks from which a producer was asked for. */
let produced: MediaStreamTrack[];
/** Answers the request for a producer. */
let answer: PromiseWithResolvers<object>;
/** Lets the last transport begin to connect; settles with the answer. */
let connect: () => Promise<void>;
/** Answers any other request. */
let request: (message: { type: string }) => Promise<object>;
/** Ids of streams in SDP to which consumers were added. */
let streamIds: unknown[];
/** Transports of the audio: to the gateway, and from it. */
let transports: Transport[];
/** Number of searches for a first path that have begun. */
let searches: number;
/** Faults that were told. */
let faults: string[];

class Transport {
  connectionState = 'new';

  constructor() {
    transports.push(this);
  }

  produce({ track }: { track: MediaStreamTrack }): Promise<object> {
    produced.push(track);
    return answer.promise;
  }
  consume({ id, streamId }: { id: string; streamId?: string }): Promise<object> {
    streamIds.push(streamId);
    return Promise.resolve({ id, track: {}, close: () => undefined });
  }
  on(event: string, listener: (parameters: object, ...done: (() => void)[]) => void): void {
    if (event === 'connect') connect = () => new Promise((...done) => listener({}, ...done));
  }
  getStats = (): Promise<object> => new Promise(() => undefined);
  close(): void {}
}
vi.mock('mediasoup-client', () => ({
  Device: class {
    load = () => Promise.resolve();
    createSendTransport = () => new Transport();
    createRecvTransport = () => new Transport();
  },
}));
vi.mock('../../../../../packages/client/src/webrtc/ice.ts', () => ({
  keepIceAlive: () => () => (searches += 1),
}));
vi.mock('../../../../../packages/client/src/webrtc/playback.ts', () => ({
  Playback: class {
    add = () => undefined;
    remove = () => undefined;
    close = () => undefined;
  },
}));
vi.mock('../../../../../packages/client/src/webrtc/silence.ts', () => ({
  openSilence: () => ({ track: SILENCE, close: () => undefined }),
}));

const SILENCE = { enabled: true } as MediaStreamTrack;
const trackIn = (readyState: MediaStreamTrackState) =>
  ({ enabled: true, readyState }) as MediaStreamTrack;

let audio: WebRtcAudio;

beforeEach(() => {
  produced = [];
  searches = 0;
  transports = [];
  faults = [];
  streamIds = [];
  answer = Promise.withResolvers();
  request = () => Promise.resolve({});
});
afterEach(() => audio.close());

async function openAudio(microphone: MediaStreamTrack): Promise<SoundSettings> {
  const settings: SoundSettings = {
    microphone,
    muted: false,
    volumes: new Map(),
    speakerId: '',
    toldMuted: false,
    pendingMutes: 0,
    answeredMuted: false,
    isMutedByGateway: false,
  };
  const transport = { id: 't' };
  const webrtc = { send_transport: transport, recv_transport: transport };
  audio = new WebRtcAudio({
    joined: { type: 'joined', room: 'kitchen', speaker: 1, peers: [], webrtc },
    wire: { request: (message: { type: string }) => request(message) },
    settings,
    assets: {},
    handlers: {
      fault: (message: string) => faults.push(message),
      trackChanged: () => undefined,
    },
  } as unknown as AudioParts);
  await audio.opened();
  return settings;
}

test('a mute before the gateway has answered produce silences the track at once', async () => {
  const microphone = trackIn('live');
  const settings = await openAudio(microphone);
  void audio.applyMicrophone();
  await vi.waitFor(() => expect(produced).toEqual([microphone]), { timeout: 10_000 });
  settings.muted = true;
  await audio.applyMuted();
  expect(microphone.enabled).toBe(false);
  settings.muted = false;
  await audio.applyMuted();
  expect(microphone.enabled).toBe(true);
});

test('a transport whose connection the gateway has not answered has no path', async () => {
  await openAudio(trackIn('live'));
  const connected = Promise.withResolvers<object>();
  request = () => connected.promise;
  expect(audio.hasPath).toBe(true);
  void connect();
  expect(audio).toMatchObject({ hasPath: false, isAskingForPath: true });
  expect(searches).toBe(0);
  // The network may block the path of another one, which has been answered.
  transports[0]!.connectionState = 'connecting';
  expect(audio).toMatchObject({ hasPath: false, isAskingForPath: false });
  transports[0]!.connectionState = 'connected';
  expect(audio).toMatchObject({ hasPath: false, isAskingForPath: true });
  connected.resolve({});
  await vi.waitFor(() => expect(audio.hasPath).toBe(true), { timeout: 10_000 });
  expect(audio.isAskingForPath).toBe(false);
  await vi.waitFor(() => expect(searches).toBe(1), { timeout: 10_000 });
});

test('a path is looked for from the answer of the gateway on, until it is found', async () => {
  const now = vi.spyOn(performance, 'now').mockReturnValue(0);
  onTestFinished(() => now.mockRestore());
  await openAudio(trackIn('live'));
  const answered = Promise.withResolvers<object>();
  request = () => answered.promise;
  const connected = connect();
  now.mockReturnValue(9000);
  expect(audio.searchedMs).toBe(0);
  answered.resolve({});
  await connected;
  transports[1]!.connectionState = 'connecting';
  now.mockReturnValue(12_000);
  expect(audio.searchedMs).toBe(3000);
  transports[1]!.connectionState = 'connected';
  expect(audio.searchedMs).toBe(0);
});

test('a client that may not publish proves WebRTC by hearing, also with a microphone', async () => {
  await openAudio(trackIn('live'));
  answer.reject(new RequestError('forbidden', 'The token does not allow publishing.', false));
  await audio.prove();
  expect(produced).toHaveLength(1);
});

test('a microphone that the gateway refuses for another reason does not prove WebRTC', async () => {
  await openAudio(trackIn('live'));
  answer.reject(new RequestError('media_lost', 'The media worker died.', true));
  await expect(audio.prove()).rejects.toMatchObject({ code: 'media_lost' });
});

test('with a microphone that has ended, WebRTC proves itself by silence', async () => {
  await openAudio(trackIn('ended'));
  answer.resolve({});
  await audio.prove();
  expect(produced).toEqual([SILENCE]);
});

test('a microphone that has ended is not sent, and is no fault of the gateway', async () => {
  await openAudio(trackIn('ended'));
  answer.resolve({ id: 'p' });
  await audio.applyMicrophone();
  expect(produced).toEqual([]);
});

test('a microphone that is taken while WebRTC proves itself by silence gets no producer of its own', async () => {
  const settings = await openAudio(trackIn('ended'));
  const proven = audio.prove();
  settings.microphone = trackIn('live');
  const applied = audio.applyMicrophone();
  await vi.waitFor(() => expect(produced).toEqual([SILENCE]), { timeout: 10_000 });
  const replaced: unknown[] = [];
  const replaceTrack = async ({ track }: object & { track?: unknown }) => void replaced.push(track);
  answer.resolve({ id: 'p', track: SILENCE, replaceTrack });
  await Promise.all([proven, applied]);
  expect(produced).toEqual([SILENCE]);
  expect(replaced).toEqual([settings.microphone]);
});

test('statistics that are asked for while the audio is closed are empty, also in a browser that never answers', async () => {
  await openAudio(trackIn('live'));
  const [stats, counters] = [audio.rtcStats(), audio.counters()];
  audio.close();
  expect(await stats).toBeUndefined();
  expect(await counters).toMatchObject({ packetsReceived: 0 });
});

/** Has the gateway refuse the first requests of a type because the account is over its budget. @returns the types of all requests */
function refuseTwice(refused: string): string[] {
  const types: string[] = [];
  request = ({ type }) => {
    types.push(type);
    const isRefused = type === refused && types.filter((each) => each === refused).length < 3;
    if (!isRefused) return Promise.resolve({});
    return Promise.reject(new RequestError('rate_limited', 'Too many messages.', true));
  };
  vi.useFakeTimers();
  vi.stubGlobal('window', globalThis);
  onTestFinished(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });
  return types;
}

test('a transport whose connection the gateway refuses for now is connected later, and has no path until then', async () => {
  await openAudio(trackIn('live'));
  const types = refuseTwice('connect_transport');
  const connected = connect();
  await vi.advanceTimersByTimeAsync(100);
  expect(audio.hasPath).toBe(false);
  await vi.advanceTimersByTimeAsync(3000);
  await connected;
  expect(types).toEqual(Array(3).fill('connect_transport'));
  expect(audio.hasPath).toBe(true);
});

const BOB = { consumer_id: 'c', producer_id: 'p', peer: 'bob', kind: 'audio', rtp_parameters: {} };

test('a peer that the gateway refuses to send for now is heard later', async () => {
  await openAudio(trackIn('live'));
  const types = refuseTwice('resume_consumer');
  audio.receive({ type: 'new_consumer', ...BOB } as unknown as ServerMessage);
  await vi.advanceTimersByTimeAsync(100);
  expect(audio.isAskingForAudio).toBe(true);
  await vi.advanceTimersByTimeAsync(3000);
  expect(audio.isAskingForAudio).toBe(false);
  expect(types).toEqual(Array(3).fill('resume_consumer'));
  expect(faults).toEqual([]);
});

test('the CNAME of a peer is not the id of a stream, in which a space ends all later offers', async () => {
  await openAudio(trackIn('live'));
  const hostile = { ...BOB, rtp_parameters: { rtcp: { cname: 'a b c' } } };
  audio.receive({ type: 'new_consumer', ...hostile } as unknown as ServerMessage);
  await vi.waitFor(() => expect(streamIds).toEqual(['c']), { timeout: 10_000 });
});

test('requests that wait to be repeated end with the audio', async () => {
  await openAudio(trackIn('live'));
  const types = refuseTwice('connect_transport');
  const connected = connect();
  await vi.advanceTimersByTimeAsync(0);
  audio.close();
  await expect(connected).rejects.toMatchObject({ code: 'rate_limited' });
  expect(types).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(0);
});

test('a mute that the gateway refuses for now is not told later, when another may hold', async () => {
  const settings = await openAudio(trackIn('live'));
  answer.resolve({ id: 'p', pause: () => undefined });
  await audio.applyMicrophone();
  const types = refuseTwice('pause_producer');
  settings.muted = true;
  await expect(audio.applyMuted()).rejects.toMatchObject({ code: 'rate_limited' });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(types).toEqual(['pause_producer']);
});
