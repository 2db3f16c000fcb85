import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AudioGraph } from '../../../packages/client/src/websocket/audio-graph.ts';

/** Parts of the audio over the WebSocket, of which some cannot be had. Node has no Web Audio: context and worker are the test's. */

/** Workers that run. */
let running: number;
let areContextsOpen: boolean;

beforeEach(() => {
  running = 0;
  areContextsOpen = true;
  class Context {
    readonly audioWorklet = { addModule: () => Promise.reject(new Error('No worklet.')) };
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
      setTimeout(() => this.dispatchEvent(ready), 1);
    }
    terminate(): void {
      running -= 1;
    }
  }
  vi.stubGlobal('AudioContext', Context);
  vi.stubGlobal('Worker', FakeWorker);
});
afterEach(() => {
  vi.unstubAllGlobals();
});

test('a graph that cannot be opened for want of its worklet leaves no decoder behind', async () => {
  const files = { worklet: 'worklet.js', decoder: 'decoder.js', encoder: 'encoder.js' };
  await expect(AudioGraph.open(files)).rejects.toThrow('No worklet.');
  expect(areContextsOpen).toBe(false);
  await vi.waitFor(() => expect(running).toBe(0), { timeout: 10_000 });
});
