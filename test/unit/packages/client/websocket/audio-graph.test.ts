import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AudioGraph } from '../../../../../packages/client/src/websocket/audio-graph.ts';

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
    readonly state = 'running';
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

/** Lets the decoder and the worklet load, and records with nodes of the test's. */
async function record() {
  const sent: unknown[] = [];
  let isPortOpen = true;
  class Port extends EventTarget {
    start(): void {}
    postMessage(message: unknown): void {
      if (isPortOpen) sent.push(message);
    }
    close(): void {
      isPortOpen = false;
    }
  }
  class Node {
    readonly port = new Port();
    connect(): void {}
    disconnect(): void {}
  }
  vi.stubGlobal('AudioWorkletNode', Node);
  vi.stubGlobal('MediaStream', Array);
  addModule = () => Promise.resolve();
  Object.assign(globalThis.AudioContext.prototype, { createMediaStreamSource: () => new Node() });
  const graph = await AudioGraph.open(FILES);
  await graph.record({} as MediaStreamTrack, () => undefined);
  sent.length = 0;
  return { graph, sent };
}

test('a microphone whose rate is neither that of the graph nor that of the speakers is recorded at its own', async () => {
  const { graph } = await record();
  const refuse = () => {
    throw new DOMException('', 'NotSupportedError');
  };
  Object.assign(globalThis.AudioContext.prototype, { createMediaStreamSource: refuse });
  const opened = new Map<Context, number>();
  class Context extends EventTarget {
    state = 'running';
    readonly audioWorklet = { addModule: () => addModule() };

    constructor({ sampleRate = 44_100 }: AudioContextOptions = {}) {
      super();
      opened.set(this, sampleRate);
    }
    createMediaStreamSource() {
      if (opened.get(this) !== 16_000) refuse();
      return { connect: () => undefined, disconnect: () => undefined };
    }
    close(): Promise<void> {
      opened.delete(this);
      return Promise.resolve();
    }
  }
  vi.stubGlobal('AudioContext', Context);
  const track = { getSettings: () => ({}) } as MediaStreamTrack;
  await graph.record(track, () => undefined);
  expect([...opened.values()]).toEqual([16_000]);
  expect(graph.isBlocked).toBe(false);
  // As after a phone call: the browser waits for a click.
  for (const context of opened.keys()) context.state = 'suspended';
  expect(graph.isBlocked).toBe(true);
  graph.stopRecording();
  expect(graph.isBlocked).toBe(false);
  expect(opened.size).toBe(0);
});

test('a microphone that is given up stops its processor in the audio thread', async () => {
  const { graph, sent } = await record();
  graph.stopRecording();
  expect(sent).toEqual(['stop']);
});

test('the delay of what is played is shortened until it need not be', async () => {
  const { graph, sent } = await record();
  graph.setHurried(true);
  graph.setHurried(false);
  expect(sent).toEqual(['hurry', 'steady']);
});

type Processor = {
  port: EventTarget;
  process: (input: Float32Array[][], output?: Float32Array[][]) => boolean;
};

test('processors run until they are stopped, and shorten the delay when they are told to', async () => {
  const processors = new Map<string, new () => Processor>();
  vi.stubGlobal('sampleRate', 48_000);
  vi.stubGlobal('registerProcessor', (name: string, type: new () => Processor) =>
    processors.set(name, type),
  );
  class WithPort {
    readonly port = Object.assign(new EventTarget(), {
      start: () => undefined,
      postMessage: () => undefined,
    });
  }
  vi.stubGlobal('AudioWorkletProcessor', WithPort);
  await import('../../../../../packages/client/src/worklet/processors.ts');
  const capture = new (processors.get('partyline-capture')!)();
  const block = [[new Float32Array(128)]];
  expect(capture.process(block)).toBe(true);
  capture.port.dispatchEvent(new MessageEvent('message', { data: 'stop' }));
  expect(capture.process(block)).toBe(false);

  /** Returns the number of blocks for which 200 ms of sound are played, after some messages. */
  const blocksPlayed = (...messages: string[]) => {
    const playing = new (processors.get('partyline-playout')!)();
    const source = Object.assign(new EventTarget(), { start: () => undefined });
    const tell = (to: EventTarget, data: unknown, ports: EventTarget[] = []) =>
      to.dispatchEvent(Object.assign(new Event('message'), { data, ports }));
    tell(playing.port, 'source', [source]);
    for (const message of messages) tell(playing.port, message);
    for (let i = 0; i < 10; i += 1) tell(source, new Float32Array(960).fill(0.5));
    const output = new Float32Array(128);
    let blocks = 0;
    do {
      playing.process([], [[output]]);
      blocks += 1;
    } while (output.some((sample) => sample > 0.01));
    return blocks;
  };
  expect(blocksPlayed('hurry')).toBeLessThan(blocksPlayed() - 5);
  expect(blocksPlayed('hurry', 'stats')).toBe(blocksPlayed('hurry'));
  expect(blocksPlayed('hurry', 'steady')).toBe(blocksPlayed());
});

test('a graph that the browser has stopped tells so again when the page is visible again', async () => {
  const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
  vi.stubGlobal('document', page);
  Object.assign(globalThis.AudioContext.prototype, { addEventListener: () => undefined });
  const { graph } = await record();
  let blocked = 0;
  graph.onBlocked(() => (blocked += 1));
  const show = () => page.dispatchEvent(new Event('visibilitychange'));
  show();
  expect(blocked).toBe(0);
  vi.spyOn(graph, 'isBlocked', 'get').mockReturnValue(true);
  show();
  expect(blocked).toBe(1);
  page.visibilityState = 'hidden';
  show();
  expect(blocked).toBe(1);
  page.visibilityState = 'visible';
  graph.close();
  show();
  expect(blocked).toBe(1);
});
