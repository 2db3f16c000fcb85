import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { openWorker } from '../../../../../packages/client/src/websocket/open-worker.ts';

/** Event by which a worker answers its first message. */
let answer: Event;
/** Number of workers that run. */
let running: number;

beforeEach(() => {
  running = 0;
  class FakeWorker extends EventTarget {
    constructor() {
      super();
      running += 1;
    }
    postMessage(): void {
      setTimeout(() => this.dispatchEvent(answer));
    }
    terminate(): void {
      running -= 1;
    }
  }
  vi.stubGlobal('Worker', FakeWorker);
});
afterEach(() => void vi.unstubAllGlobals());

const failedWith = (fields: object) => Object.assign(new Event('error'), fields);
const said = (data: object) => new MessageEvent('message', { data });

test.each([
  ['a file that cannot be loaded', failedWith({}), 'The browser could not load decoder.js.'],
  [
    'a script that throws',
    failedWith({ message: 'Uncaught RangeError: no memory' }),
    'decoder.js: Uncaught RangeError: no memory',
  ],
  ['a worker without WebAssembly', said({ ready: false, message: 'no Wasm' }), 'no Wasm'],
])('%s: the error says so, and no worker stays', async (_name, event, message) => {
  answer = event;
  await expect(openWorker('decoder.js', 'play')).rejects.toThrow(new Error(message));
  expect(running).toBe(0);
});
