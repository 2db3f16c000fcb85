import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Playback } from '../../../../../packages/client/src/webrtc/playback.ts';

/** Volumes of peers over WebRTC, and the contexts that boost them. Elements and contexts are the test's. */

let elements: Element[];
let contexts: Context[];

/** An element whose volume can be set, and that plays, until a test says otherwise. */
class Element extends EventTarget {
  static isVolumeFixed: boolean;
  static mayPlay: boolean;
  /** True in a phone call on iOS: it neither plays nor refuses. */
  static isInterrupted: boolean;
  srcObject: unknown;
  muted = false;
  paused = true;
  ended = false;
  plays = 0;
  #volume = 1;

  constructor() {
    super();
    elements.push(this);
  }

  get volume(): number {
    return this.#volume;
  }
  set volume(volume: number) {
    if (!Element.isVolumeFixed) this.#volume = volume;
  }

  play(): Promise<void> {
    this.plays += 1;
    if (Element.isInterrupted) return new Promise(() => undefined);
    if (!Element.mayPlay) return Promise.reject(new DOMException('', 'NotAllowedError'));
    this.paused = false;
    return Promise.resolve();
  }
  pause(): void {
    this.paused = true;
    queueMicrotask(() => this.dispatchEvent(new Event('pause')));
  }
}

class Context extends EventTarget {
  static initial: AudioContextState;
  static resume: (context: Context) => Promise<void>;
  state = Context.initial;
  readonly destination = {};
  gain: Gain | undefined;

  constructor() {
    super();
    contexts.push(this);
  }

  resume(): Promise<void> {
    return Context.resume(this);
  }
  createMediaStreamSource() {
    return { connect: (gain: Gain) => ((this.gain = gain), gain) };
  }
  close(): Promise<void> {
    this.state = 'closed';
    return Promise.resolve();
  }
}

class Gain {
  readonly gain = { value: 1 };
  connect(): void {}
}

const run = async (context: Context) => {
  await Promise.resolve();
  context.state = 'running';
};

let playback: Playback;
let page: EventTarget & { visibilityState: string };
let blocked: number;

beforeEach(() => {
  vi.useFakeTimers();
  elements = [];
  contexts = [];
  blocked = 0;
  Element.isVolumeFixed = false;
  Element.mayPlay = true;
  Element.isInterrupted = false;
  page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  Context.initial = 'running';
  Context.resume = run;
  vi.stubGlobal('Audio', Element);
  vi.stubGlobal('document', page);
  vi.stubGlobal('MediaStream', EventTarget);
  vi.stubGlobal('AudioContext', Context);
  vi.stubGlobal('GainNode', Gain);
  playback = new Playback(() => (blocked += 1), '');
});
afterEach(() => {
  playback.close();
  if (vi.getTimerCount() > 0) throw new Error('A timer is left.');
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const add = (gain: number) => playback.add('1', 'bob', {} as MediaStreamTrack, gain);
/** Volumes at which the peer is heard: by its element, or by contexts in its place. */
const heard = () => {
  const { muted, volume } = elements[0]!;
  const open = contexts.filter(({ state }) => state !== 'closed');
  return { muted, volume, boosts: open.map(({ gain }) => gain?.gain.value) };
};

test('volumes up to 1 are those of the element, and 0 mutes it; above 1 Web Audio plays', async () => {
  add(1);
  playback.setGain('bob', 0.3);
  await vi.advanceTimersByTimeAsync(10);
  expect(heard()).toEqual({ muted: false, volume: 0.3, boosts: [] });
  playback.setGain('bob', 0);
  expect(heard()).toEqual({ muted: true, volume: 0, boosts: [] });
  playback.setGain('bob', 2);
  expect(heard()).toEqual({ muted: true, volume: 1, boosts: [2] });
  playback.setGain('bob', 1);
  expect(heard()).toEqual({ muted: false, volume: 1, boosts: [] });
});

test('where the volume of elements cannot be set, Web Audio plays between 0 and 1, too', async () => {
  Element.isVolumeFixed = true;
  add(0.3);
  await vi.advanceTimersByTimeAsync(10);
  expect(heard()).toEqual({ muted: true, volume: 1, boosts: [0.3] });
  playback.setGain('bob', 0.6);
  expect(heard()).toEqual({ muted: true, volume: 1, boosts: [0.6] });
  playback.setGain('bob', 0);
  expect(heard()).toEqual({ muted: true, volume: 1, boosts: [] });
  playback.setGain('bob', 1);
  expect(heard()).toEqual({ muted: false, volume: 1, boosts: [] });
});

test('a reduced volume that Web Audio must apply waits for a click: until then the peer is heard too loud, not at all silent', async () => {
  Element.isVolumeFixed = true;
  Context.initial = 'suspended';
  Context.resume = () => new Promise(() => undefined);
  add(0.3);
  await vi.advanceTimersByTimeAsync(1000);
  expect({ blocked, ...heard() }).toMatchObject({ blocked: 1, muted: false });
  const context = contexts[0]!;
  context.state = 'running';
  context.dispatchEvent(new Event('statechange'));
  expect(heard()).toEqual({ muted: true, volume: 1, boosts: [0.3] });
});

test('a context that runs by itself asks for no click', async () => {
  Context.initial = 'suspended';
  add(2);
  await vi.advanceTimersByTimeAsync(1000);
  expect({ blocked, state: contexts[0]!.state }).toEqual({ blocked: 0, state: 'running' });
});

test('a context that does not run within 500 ms asks for a click, which resumes it', async () => {
  Context.initial = 'suspended';
  Context.resume = () => new Promise(() => undefined);
  add(2);
  await vi.advanceTimersByTimeAsync(400);
  expect(blocked).toBe(0);
  await vi.advanceTimersByTimeAsync(200);
  expect(blocked).toBe(1);
  Context.resume = run;
  expect(playback.isBlocked).toBe(true);
  playback.resume();
  await vi.advanceTimersByTimeAsync(0);
  expect(contexts[0]!.state).toBe('running');
  expect(playback.isBlocked).toBe(false);
});

test('a context that the browser interrupts asks for a click, and nothing once its peer has left', async () => {
  add(2);
  await vi.advanceTimersByTimeAsync(10);
  const context = contexts[0]!;
  Context.resume = () => Promise.reject(new DOMException('A call.', 'InvalidStateError'));
  // Safari's own state.
  context.state = 'interrupted' as AudioContextState;
  context.dispatchEvent(new Event('statechange'));
  await vi.advanceTimersByTimeAsync(0);
  expect(blocked).toBe(1);
  context.dispatchEvent(new Event('statechange'));
  playback.remove('1');
  await vi.advanceTimersByTimeAsync(1000);
  expect(blocked).toBe(1);
});

test('a track that the browser refuses to play is blocked until it plays, or has gone', async () => {
  Element.mayPlay = false;
  add(1);
  expect(playback.isBlocked).toBe(false);
  await vi.advanceTimersByTimeAsync(0);
  expect({ blocked, isBlocked: playback.isBlocked }).toEqual({ blocked: 1, isBlocked: true });
  Element.mayPlay = true;
  playback.resume();
  expect(playback.isBlocked).toBe(false);
  Element.mayPlay = false;
  playback.add('2', 'eve', {} as MediaStreamTrack, 1);
  await vi.advanceTimersByTimeAsync(0);
  expect(playback.isBlocked).toBe(true);
  playback.remove('2');
  expect(playback.isBlocked).toBe(false);
});

/** Lets the browser pause the element, and waits for what follows. */
async function pauseElement(element: Element): Promise<void> {
  element.pause();
  await vi.advanceTimersByTimeAsync(600);
}

test('a track that the browser pauses plays again', async () => {
  add(1);
  await pauseElement(elements[0]!);
  const { paused, plays } = elements[0]!;
  expect({ blocked, paused, plays }).toEqual({ blocked: 0, paused: false, plays: 2 });
});

test('a track that the browser pauses for a phone call asks for a click, or plays when the page is visible again', async () => {
  add(1);
  Element.isInterrupted = true;
  await pauseElement(elements[0]!);
  expect({ blocked, isBlocked: playback.isBlocked }).toEqual({ blocked: 1, isBlocked: true });
  Element.isInterrupted = false;
  page.visibilityState = 'hidden';
  page.dispatchEvent(new Event('visibilitychange'));
  expect(playback.isBlocked).toBe(true);
  page.visibilityState = 'visible';
  page.dispatchEvent(new Event('visibilitychange'));
  await vi.advanceTimersByTimeAsync(0);
  expect({ blocked, isBlocked: playback.isBlocked }).toEqual({ blocked: 1, isBlocked: false });
});

test('a track that the browser pauses and refuses to play asks for a click', async () => {
  add(1);
  Element.mayPlay = false;
  await pauseElement(elements[0]!);
  expect({ blocked, isBlocked: playback.isBlocked }).toEqual({ blocked: 1, isBlocked: true });
});

test('a track that the browser pauses again at once asks for a click: another page may play in its place', async () => {
  add(1);
  await pauseElement(elements[0]!);
  await pauseElement(elements[0]!);
  const { paused, plays } = elements[0]!;
  expect({ blocked, paused, plays }).toEqual({ blocked: 1, paused: true, plays: 2 });
});

test('a track that has ended, or was removed, is not played again', async () => {
  add(1);
  const [element] = elements as [Element];
  element.ended = true;
  await pauseElement(element);
  element.ended = false;
  playback.remove('1');
  page.dispatchEvent(new Event('visibilitychange'));
  await vi.advanceTimersByTimeAsync(600);
  const { paused, plays } = element;
  expect({ blocked, paused, plays }).toEqual({ blocked: 0, paused: true, plays: 1 });
});

test('a boost that the browser has interrupted runs again when the page is visible again, or asks for a click', async () => {
  add(2);
  const context = contexts[0]!;
  const show = async () => {
    page.dispatchEvent(new Event('visibilitychange'));
    await vi.advanceTimersByTimeAsync(600);
  };
  context.state = 'suspended';
  Context.resume = () => new Promise(() => undefined);
  await show();
  expect({ blocked, isBlocked: playback.isBlocked }).toEqual({ blocked: 1, isBlocked: true });
  Context.resume = run;
  await show();
  expect(context.state).toBe('running');
  expect({ blocked, isBlocked: playback.isBlocked }).toEqual({ blocked: 1, isBlocked: false });
});
