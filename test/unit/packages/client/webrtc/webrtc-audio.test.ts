import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { RequestError } from '../../../../../packages/client/src/errors.ts';
import type { AudioParts, SoundSettings } from '../../../../../packages/client/src/room-audio.ts';
import { WebRtcAudio } from '../../../../../packages/client/src/webrtc/webrtc-audio.ts';

/** The microphone of the browser client over WebRTC. Transports and producers are the test's: Node has no WebRTC. */

/** Tracks from which a producer was asked for. */
let produced: MediaStreamTrack[];
/** Answers the request for a producer. */
let answer: PromiseWithResolvers<object>;
/** Lets the last transport begin to connect. */
let connect: () => void;
/** Answers any other request. */
let request: () => Promise<object>;

class Transport {
  readonly connectionState = 'new';
  produce({ track }: { track: MediaStreamTrack }): Promise<object> {
    produced.push(track);
    return answer.promise;
  }
  on(event: string, listener: (parameters: object, done: () => void) => void): void {
    if (event === 'connect') connect = () => listener({}, () => undefined);
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
  keepIceAlive: () => undefined,
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
    wire: { request: () => request() },
    settings,
    assets: {},
    handlers: {},
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
  connect();
  expect(audio.hasPath).toBe(false);
  connected.resolve({});
  await vi.waitFor(() => expect(audio.hasPath).toBe(true), { timeout: 10_000 });
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

test('statistics that are asked for while the audio is closed are empty, also in a browser that never answers', async () => {
  await openAudio(trackIn('live'));
  const [stats, counters] = [audio.rtcStats(), audio.counters()];
  audio.close();
  expect(await stats).toBeUndefined();
  expect(await counters).toMatchObject({ packetsReceived: 0 });
});
