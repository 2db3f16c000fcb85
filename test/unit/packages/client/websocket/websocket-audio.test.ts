import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { AudioParts } from '../../../../../packages/client/src/room-audio.ts';
import { WebSocketAudio } from '../../../../../packages/client/src/websocket/websocket-audio.ts';

/** Recorded audio that the client cannot record, or cannot send over the WebSocket. Node has no Web Audio: graph, encoder and connection are the test's. */

/** Gives a frame of the microphone to the audio. */
let capture: () => void;
let isEncoderBroken: boolean;
let isNetworkSlow: boolean;
/** True if the microphone needs a context of its own. */
let isOfOtherRate: boolean;
let isPlaybackOpen: boolean;
/** Settles when the browser has loaded the file of worklets. */
let loaded: Promise<void>;
let parts: AudioParts;

beforeEach(() => {
  isEncoderBroken = false;
  isNetworkSlow = false;
  isOfOtherRate = false;
  isPlaybackOpen = true;
  loaded = Promise.resolve();
  vi.useFakeTimers();
  class Node {
    readonly port = Object.assign(new EventTarget(), {
      start: () => undefined,
      postMessage: () => undefined,
      close: () => undefined,
    });
    constructor(_context: unknown, name?: string) {
      const frame = () => new MessageEvent('message', { data: new Float32Array(960) });
      if (name === 'partyline-capture') capture = () => this.port.dispatchEvent(frame());
    }
    connect(): void {}
    disconnect(): void {}
  }
  class Context extends EventTarget {
    /** The browser lets the context run that plays, which has the client's rate, and no other. */
    readonly state: string;
    readonly #isPlaying: boolean;
    readonly audioWorklet = { addModule: () => loaded };
    readonly close = () => {
      if (this.#isPlaying) isPlaybackOpen = false;
      return Promise.resolve();
    };
    constructor({ sampleRate }: { sampleRate?: number } = {}) {
      super();
      this.#isPlaying = sampleRate !== undefined;
      this.state = this.#isPlaying ? 'running' : 'suspended';
    }
    createMediaStreamSource(): Node {
      if (this.#isPlaying && isOfOtherRate) throw new DOMException('', 'NotSupportedError');
      return new Node(this);
    }
  }
  class Decoder extends EventTarget {
    postMessage(): void {
      queueMicrotask(() =>
        this.dispatchEvent(new MessageEvent('message', { data: { ready: true } })),
      );
    }
    terminate(): void {}
  }
  class Encoder {
    static readonly isConfigSupported = () => Promise.resolve({ supported: true });
    readonly #handlers: AudioEncoderInit;
    state = 'unconfigured';
    constructor(handlers: AudioEncoderInit) {
      this.#handlers = handlers;
    }
    configure(): void {
      this.state = 'configured';
    }
    encode(): void {
      if (isEncoderBroken) {
        this.state = 'closed';
        this.#handlers.error(new DOMException('', 'EncodingError'));
      } else {
        const chunk = { byteLength: 80, copyTo: () => undefined };
        this.#handlers.output(chunk as unknown as EncodedAudioChunk);
      }
    }
    close(): void {}
  }
  class Data {
    close(): void {}
  }
  vi.stubGlobal('document', new EventTarget());
  vi.stubGlobal('AudioWorkletNode', Node);
  vi.stubGlobal('AudioContext', Context);
  vi.stubGlobal('MediaStream', Array);
  vi.stubGlobal('Worker', Decoder);
  vi.stubGlobal('AudioEncoder', Encoder);
  vi.stubGlobal('AudioData', Data);
  parts = {
    joined: { type: 'joined', room: 'kitchen', speaker: 1, peers: [] },
    peers: new Map(),
    wire: { sendFrame: () => !isNetworkSlow },
    settings: { microphone: { getSettings: () => ({}) }, muted: false, speakerId: '' },
    assets: {},
    handlers: {},
  } as unknown as AudioParts;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function speak() {
  const audio = new WebSocketAudio(parts);
  await audio.opened();
  await audio.applyMicrophone();
  capture();
  expect(audio.unsent).toBeUndefined();
  return audio;
}

/** Captures a frame each 20 ms, and returns the time for which nothing has been sent, ms. */
function talk(audio: WebSocketAudio, forMs: number): number | undefined {
  for (let ms = 0; ms < forMs; ms += 20) {
    vi.advanceTimersByTime(20);
    capture();
  }
  return audio.unsent && performance.now() - audio.unsent.sinceMs;
}

test('audio that an encoder never encodes counts as unsent until it does', async () => {
  const audio = await speak();
  isEncoderBroken = true;
  expect(talk(audio, 3000)).toBe(2980);
  expect(audio.unsent).toMatchObject({ isEncoded: false });
  isEncoderBroken = false;
  expect(talk(audio, 20)).toBeUndefined();
});

test('audio that the network does not take counts as unsent until it does, or another connection is there', async () => {
  const audio = await speak();
  isNetworkSlow = true;
  expect(talk(audio, 3000)).toBe(2980);
  expect(audio.unsent).toMatchObject({ isEncoded: true });
  audio.resume();
  expect(talk(audio, 1000)).toBe(980);
  isNetworkSlow = false;
  expect(talk(audio, 20)).toBeUndefined();
});

test('a client that is muted has nothing to send', async () => {
  const audio = await speak();
  isNetworkSlow = true;
  talk(audio, 3000);
  parts.settings.muted = true;
  expect(audio.unsent).toBeUndefined();
  talk(audio, 20);
  parts.settings.muted = false;
  expect(talk(audio, 20)).toBe(0);
});

test('a recording that the browser has stopped needs a click, unless the client is muted', async () => {
  isOfOtherRate = true;
  const audio = await speak();
  expect(audio.isPlaybackBlocked).toBe(true);
  parts.settings.muted = true;
  expect(audio.isPlaybackBlocked).toBe(false);
});

test('audio that another transport has taken over sends and receives nothing, and plays for 60 ms', async () => {
  const audio = await speak();
  const sendFrame = vi.fn<() => boolean>();
  Object.assign(parts.wire, { sendFrame });
  expect(parts.wire).toHaveProperty('onFrame', expect.any(Function));
  audio.retire();
  capture();
  expect(sendFrame).not.toHaveBeenCalled();
  expect(parts.wire).toHaveProperty('onFrame', undefined);
  vi.advanceTimersByTime(59);
  expect(isPlaybackOpen).toBe(true);
  vi.advanceTimersByTime(1);
  expect(isPlaybackOpen).toBe(false);
});

test('audio plays for 60 ms also if another transport takes over while the microphone is opened', async () => {
  isOfOtherRate = true;
  const audio = new WebSocketAudio(parts);
  await audio.opened();
  const loading = Promise.withResolvers<void>();
  loaded = loading.promise;
  const applied = audio.applyMicrophone();
  await vi.advanceTimersByTimeAsync(0);
  audio.retire();
  loading.resolve();
  await applied;
  expect(isPlaybackOpen).toBe(true);
  vi.advanceTimersByTime(60);
  expect(isPlaybackOpen).toBe(false);
});

test('volumes that wait for an answer when another transport takes over are told by that', async () => {
  const volumes = new Map([['bob', 2]]);
  Object.assign(parts, { peers: new Map([['bob', {}]]) });
  Object.assign(parts.settings, { volumes, toldMuted: false });
  const answers: PromiseWithResolvers<void>[] = [];
  const request = () => {
    const answer = Promise.withResolvers<void>();
    answers.push(answer);
    return answer.promise;
  };
  Object.assign(parts.wire, { request });
  const audio = new WebSocketAudio(parts);
  const told = audio.applySettings();
  await vi.advanceTimersByTimeAsync(0);
  volumes.set('bob', 3);
  const toldNext = audio.applyVolume();
  audio.retire();
  answers[0]!.resolve();
  await told;
  await vi.advanceTimersByTimeAsync(0);
  expect(answers).toHaveLength(1);
  await toldNext;
  expect(parts.settings.toldVolumes?.get('bob')).toBe(2);
  audio.close();
});

test('a room that is left closes audio that another transport has taken over at once', async () => {
  const audio = await speak();
  audio.retire();
  audio.close();
  expect(isPlaybackOpen).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});

test('audio proves itself by an empty frame, also if its encoder cannot be loaded', async () => {
  const sent: number[] = [];
  const sendFrame = (frame: Uint8Array) => void sent.push(frame.length);
  Object.assign(parts, { wire: { sendFrame } });
  vi.stubGlobal('AudioEncoder', {
    isConfigSupported: () => Promise.resolve({ supported: false }),
  });
  const audio = new WebSocketAudio(parts);
  await audio.opened();
  sent.length = 0;
  const failing = vi.fn<() => void>(() => {
    throw new Error('not loaded');
  });
  vi.stubGlobal('Worker', failing);
  await audio.prove();
  expect(failing).toHaveBeenCalledTimes(1);
  expect(sent).toEqual([0]);
  await expect(audio.applyMicrophone()).rejects.toThrow('not loaded');
});
