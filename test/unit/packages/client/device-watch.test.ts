import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DeviceWatch } from '../../../../packages/client/src/device-watch.ts';
import type { SoundSettings } from '../../../../packages/client/src/room-audio.ts';

/** Devices that go while the client uses them. Browsers of tests have none that could be unplugged. */

let devices: { kind: string; deviceId: string }[];
/** The browser tells the page which devices there are. */
let areTold: boolean;
let mediaDevices: EventTarget;
let settings: SoundSettings;
let faults: string[];
let speakerChanges: number;
let watch: DeviceWatch;

beforeEach(() => {
  vi.useFakeTimers();
  devices = [
    { kind: 'audiooutput', deviceId: 'headset' },
    { kind: 'audioinput', deviceId: 'headset' },
  ];
  areTold = true;
  const enumerateDevices = () =>
    areTold ? Promise.resolve(devices) : Promise.reject(new Error('NotAllowedError'));
  mediaDevices = Object.assign(new EventTarget(), { enumerateDevices });
  vi.stubGlobal('navigator', { mediaDevices });
  settings = {
    microphone: null,
    muted: false,
    volumes: new Map(),
    speakerId: 'headset',
    toldMuted: false,
    pendingMutes: 0,
    answeredMuted: false,
    isMutedByGateway: false,
  };
  faults = [];
  speakerChanges = 0;
  watch = new DeviceWatch(settings, {
    speakerChanged: () => {
      speakerChanges += 1;
      return Promise.resolve();
    },
    fault: (message) => faults.push(message),
  });
});
afterEach(() => {
  watch.close();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function change(): Promise<void> {
  mediaDevices.dispatchEvent(new Event('devicechange'));
  await vi.advanceTimersByTimeAsync(0);
}

function takeMicrophone(readyState: MediaStreamTrackState = 'live'): EventTarget {
  const track = Object.assign(new EventTarget(), { readyState });
  settings.microphone = track as MediaStreamTrack;
  watch.microphoneChanged();
  return track;
}

test('speakers that are unplugged: the default ones play, and it is said', async () => {
  await change();
  expect(speakerChanges).toBe(0);
  devices = devices.filter(({ kind }) => kind === 'audioinput');
  await change();
  expect(settings.speakerId).toBe('');
  expect(speakerChanges).toBe(1);
  expect(faults).toEqual(['The speakers are gone: sound is played by the default ones.']);
  await change();
  expect(faults).toHaveLength(1);
});

test('default speakers that change are left to the browser', async () => {
  settings.speakerId = '';
  devices = [];
  await change();
  expect({ speakerChanges, faults }).toEqual({ speakerChanges: 0, faults: [] });
});

test('while the browser does not tell which devices there are, nothing is taken for unplugged', async () => {
  devices = [];
  areTold = false;
  await change();
  expect({ speakerChanges, faults }).toEqual({ speakerChanges: 0, faults: [] });
  areTold = true;
  await change();
  expect(speakerChanges).toBe(1);
});

test('while the browser hides the ids of devices, nothing is taken for unplugged', async () => {
  devices = [
    { kind: 'audioinput', deviceId: '' },
    { kind: 'audiooutput', deviceId: '' },
    { kind: 'videoinput', deviceId: 'camera' },
  ];
  await change();
  expect({ speakerChanges, faults }).toEqual({ speakerChanges: 0, faults: [] });
  devices = [
    { kind: 'audioinput', deviceId: 'built-in' },
    { kind: 'audiooutput', deviceId: '' },
  ];
  await change();
  expect(speakerChanges).toBe(1);
});

test('a microphone that is unplugged is said', async () => {
  takeMicrophone().dispatchEvent(new Event('ended'));
  await vi.advanceTimersByTimeAsync(900);
  expect(faults).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(faults).toEqual(['The microphone is gone, or may not be used: nobody hears you.']);
});

test('a microphone that was unplugged before it was taken is said, too', async () => {
  takeMicrophone('ended');
  await vi.advanceTimersByTimeAsync(900);
  expect(faults).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(faults).toEqual(['The microphone is gone, or may not be used: nobody hears you.']);
  takeMicrophone();
  takeMicrophone('ended');
  takeMicrophone();
  await vi.advanceTimersByTimeAsync(5000);
  expect(faults).toHaveLength(1);
});

test('nothing is said of a microphone for which there is another at once', async () => {
  takeMicrophone().dispatchEvent(new Event('ended'));
  await vi.advanceTimersByTimeAsync(500);
  takeMicrophone();
  await vi.advanceTimersByTimeAsync(5000);
  expect(faults).toEqual([]);
});

test('a closed client says nothing', async () => {
  const track = takeMicrophone();
  watch.close();
  track.dispatchEvent(new Event('ended'));
  devices = [];
  await change();
  await vi.advanceTimersByTimeAsync(5000);
  expect({ speakerChanges, faults }).toEqual({ speakerChanges: 0, faults: [] });
});
