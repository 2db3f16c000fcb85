import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AudioGraph } from '../../../packages/client/src/websocket/audio-graph.ts';

/** Parts of the audio over the WebSocket, of which some cannot be had. Node has no Web Audio: context and worker are the test's. */

const FILES = { worklet: 'worklet.js', decoder: 'decoder.js', encoder: 'encoder.js' };

/** Loads the worklet. */
let addModule: () => Promise<void>;
let isDecoderLoaded: boolean;
/** Workers that run. */
let running: number;
let areContextsOpen: boolean;

beforeEach(() => {
  running = 0;
  areContextsOpen = true;
  isDecoderLoaded = true;
  addModule = () => Promise.reject(new Error('No worklet.'));
  class Context {
    readonly audioWorklet = { addModule: () => addModule() };
    close(): Promise<void> {
      areContextsOpen = false;
      return Promise.resolve();
    }
  }
  class FakeWorker extends EventTarget {
    constructor() {
      super();
      running += 1;
    }
    postMessage(): void {
      const ready = new MessageEvent('message', { data: { ready: true } });
      if (isDecoderLoaded) setTimeout(() => this.dispatchEvent(ready), 1);
    }
    terminate(): void {
      running -= 1;
    }
  }
  vi.stubGlobal('AudioContext', Context);
  vi.stubGlobal('Worker', FakeWorker);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('a graph that cannot be opened for want of its worklet leaves no decoder behind', async () => {
  await expect(AudioGraph.open(FILES)).rejects.toThrow('No worklet.');
  expect(areContextsOpen).toBe(false);
  await vi.waitFor(() => expect(running).toBe(0), { timeout: 10_000 });
});

test.each(['worklet.js', 'decoder.js'])(
  'a %s that does not load is given up after 30 s',
  async (file) => {
    vi.useFakeTimers();
    isDecoderLoaded = file !== 'decoder.js';
    addModule =
      file === 'worklet.js' ? () => new Promise(() => undefined) : () => Promise.resolve();
    const failure = AudioGraph.open(FILES).catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(await failure).toMatchObject({ message: `The browser did not load ${file} in time.` });
    await vi.advanceTimersByTimeAsync(0);
    expect({ areContextsOpen, running, timers: vi.getTimerCount() }).toEqual({
      areContextsOpen: false,
      running: 0,
      timers: 0,
    });
  },
);
