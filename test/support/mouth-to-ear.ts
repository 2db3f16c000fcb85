import type { Page } from 'playwright-core';

/** Times of bursts in a page's microphone and in what another page plays, both by the clock of the machine. */

declare global {
  interface Window {
    /** Moments at which bursts began in what the page sends or plays, ms of Unix time. */
    burstsMs?: number[];
  }
}

export const BURST_EVERY_MS = 1000;

/** Runs in the thread that renders audio. The mouth talks quietly, and bursts out once in a second; the ear finds bursts. */
const PROCESSORS = `
const EVERY = sampleRate * ${BURST_EVERY_MS / 1000};
const [BURST, QUIET, LOUD, ONSET] = [0.06 * sampleRate, 0.02, 0.5, 0.2];
class Mouth extends AudioWorkletProcessor {
  #at = 0;
  process(inputs, [output]) {
    const block = output[0];
    for (let i = 0; i < block.length; i += 1, this.#at += 1) {
      const isBurst = this.#at % EVERY < BURST;
      if (this.#at % EVERY === 0) this.port.postMessage(Date.now() + (1000 * i) / sampleRate);
      block[i] = (isBurst ? LOUD : QUIET) * Math.sin((2 * Math.PI * 1000 * this.#at) / sampleRate);
    }
    return true;
  }
}
class Ear extends AudioWorkletProcessor {
  #deaf = 0;
  process([input]) {
    const block = input[0] ?? [];
    for (let i = 0; i < block.length; i += 1, this.#deaf -= 1) {
      if (this.#deaf > 0 || Math.abs(block[i]) < ONSET) continue;
      this.#deaf = 0.4 * sampleRate;
      this.port.postMessage(Date.now() + (1000 * i) / sampleRate);
    }
    return true;
  }
}
registerProcessor('mouth', Mouth);
registerProcessor('ear', Ear);
`;

const MODULE = `data:text/javascript,${encodeURIComponent(PROCESSORS)}`;

/** Makes a page's microphone the mouth, or listens to what the page plays; the page is loaded anew, and must run foreign scripts. */
export async function measureBursts(page: Page, is: 'mouth' | 'ear'): Promise<void> {
  await page.addInitScript(is === 'mouth' ? speakBursts : hearBursts, MODULE);
  await page.reload();
}

/** Runs in a page, before anything else. */
function speakBursts(module: string): void {
  window.burstsMs = [];
  navigator.mediaDevices.getUserMedia = async () => {
    const context = new AudioContext({ sampleRate: 48_000 });
    await context.audioWorklet.addModule(module);
    const mouth = new AudioWorkletNode(context, 'mouth', { outputChannelCount: [1] });
    mouth.port.addEventListener('message', ({ data }) => window.burstsMs!.push(data as number));
    mouth.port.start();
    const destination = context.createMediaStreamDestination();
    mouth.connect(destination);
    return destination.stream;
  };
}

/** Runs in a page, before anything else. */
function hearBursts(module: string): void {
  window.burstsMs = [];
  const connect = Object.getOwnPropertyDescriptor(AudioNode.prototype, 'connect')!.value as (
    this: AudioNode,
    ...words: unknown[]
  ) => unknown;
  const listen = async (node: AudioNode) => {
    const context = node.context as AudioContext;
    await context.audioWorklet.addModule(module);
    const ear = new AudioWorkletNode(context, 'ear', { numberOfOutputs: 0 });
    ear.port.addEventListener('message', ({ data }) => window.burstsMs!.push(data as number));
    ear.port.start();
    connect.call(node, ear);
  };
  Object.defineProperty(AudioNode.prototype, 'connect', {
    value(this: AudioNode, ...words: unknown[]) {
      if (words[0] instanceof AudioDestinationNode) void listen(this);
      return connect.apply(this, words);
    },
  });
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(configuration?: RTCConfiguration) {
      super(configuration);
      this.addEventListener('track', ({ track }) => {
        const context = new AudioContext({ sampleRate: 48_000 });
        void listen(context.createMediaStreamSource(new MediaStream([track])));
      });
    }
  };
}
