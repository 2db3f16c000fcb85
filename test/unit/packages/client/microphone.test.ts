import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Microphone } from '../../../../packages/client/src/microphone.ts';

/** The meter of a microphone, whose rate need not be that of the speakers. Browsers of tests take every rate. */

const SPEAKERS_HZ = 44_100;

/** Rate at which a context takes the microphone's audio, Hz. */
let microphoneHz: number;
/** Rate that the track tells, Hz. */
let toldHz: number | undefined;
/** Contexts that are open. */
let contexts: Set<Context>;
let opened: number;
let isOn: boolean;
/** True during a phone call: contexts cannot be resumed. */
let isInCall: boolean;
let page: EventTarget & { visibilityState: string };
/** Constraints with which the microphone was asked for. */
let asked: MediaStreamConstraints | undefined;

class Context extends EventTarget {
  state = 'running';
  readonly #rateHz: number;

  constructor({ sampleRate = SPEAKERS_HZ }: AudioContextOptions = {}) {
    super();
    this.#rateHz = sampleRate;
    contexts.add(this);
    opened += 1;
  }
  createMediaStreamSource() {
    if (this.#rateHz !== microphoneHz) throw new DOMException('', 'NotSupportedError');
    return { connect: () => undefined };
  }
  async resume(): Promise<void> {
    if (isInCall) throw new DOMException('A call.', 'InvalidStateError');
    this.state = 'running';
  }
  close(): Promise<void> {
    contexts.delete(this);
    return Promise.resolve();
  }
}

class Analyser {
  getFloatTimeDomainData(samples: Float32Array): void {
    samples.fill(0.1);
  }
}

beforeEach(() => {
  contexts = new Set();
  opened = 0;
  toldHz = undefined;
  isOn = true;
  isInCall = false;
  page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  vi.stubGlobal('document', page);
  const track = { stop: () => (isOn = false), getSettings: () => ({ sampleRate: toldHz }) };
  const getUserMedia = (constraints: MediaStreamConstraints) => {
    asked = constraints;
    return Promise.resolve({ getAudioTracks: () => [track] });
  };
  vi.stubGlobal('navigator', { mediaDevices: { getUserMedia } });
  vi.stubGlobal('window', { isSecureContext: true });
  vi.stubGlobal('AudioContext', Context);
  vi.stubGlobal('AnalyserNode', Analyser);
  vi.stubGlobal('MediaStream', Array);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test.each([
  ['on by default', undefined, true],
  ['on where it is asked for', { processing: true }, true],
  ['off where it is not wanted', { processing: false }, false],
])('the browser’s processing is %s', async (_, options, isProcessed) => {
  microphoneHz = SPEAKERS_HZ;
  const microphone = await Microphone.open(options);
  expect(asked).toEqual({
    audio: {
      echoCancellation: isProcessed,
      noiseSuppression: isProcessed,
      autoGainControl: isProcessed,
    },
  });
  microphone.close();
});

test('a chosen microphone is asked for alone', async () => {
  microphoneHz = SPEAKERS_HZ;
  const microphone = await Microphone.open({ deviceId: 'headset' });
  expect(asked).toMatchObject({ audio: { deviceId: { exact: 'headset' } } });
  microphone.close();
});

test.each([
  ['of the speakers', SPEAKERS_HZ, undefined, 1],
  ['that it tells', 12_000, 12_000, 2],
  ['of a headset, which it does not tell', 16_000, undefined, 10],
  ['of an audio interface, which it does not tell', 96_000, undefined, 4],
])('a microphone of the rate %s has a level', async (_, rateHz, told, attempts) => {
  microphoneHz = rateHz;
  toldHz = told;
  const microphone = await Microphone.open();
  expect(microphone.level()).toBeCloseTo(0.8);
  expect({ opened, open: contexts.size }).toEqual({ opened: attempts, open: 1 });
  microphone.close();
  expect({ isOn, open: contexts.size }).toEqual({ isOn: false, open: 0 });
});

test('a microphone that the browser cannot measure can be used, without a level', async () => {
  microphoneHz = 12_345;
  const microphone = await Microphone.open();
  expect(microphone.level()).toBe(0);
  expect({ isOn, open: contexts.size }).toEqual({ isOn: true, open: 0 });
  microphone.close();
  expect(isOn).toBe(false);
});

test('a meter that the browser stops runs again at once, or when the page is visible after a phone call', async () => {
  microphoneHz = SPEAKERS_HZ;
  const microphone = await Microphone.open();
  const [context] = [...contexts] as [Context];
  const stop = () => {
    context.state = 'interrupted';
    context.dispatchEvent(new Event('statechange'));
  };
  stop();
  expect(context.state).toBe('running');
  isInCall = true;
  stop();
  isInCall = false;
  page.visibilityState = 'hidden';
  page.dispatchEvent(new Event('visibilitychange'));
  expect(context.state).toBe('interrupted');
  page.visibilityState = 'visible';
  page.dispatchEvent(new Event('visibilitychange'));
  expect(context.state).toBe('running');
  microphone.close();
  stop();
  page.dispatchEvent(new Event('visibilitychange'));
  expect(context.state).toBe('interrupted');
});
