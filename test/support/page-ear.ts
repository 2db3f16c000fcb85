import type { Page } from 'playwright-core';
import type { Heard } from './rising-tone.ts';

declare global {
  interface Window {
    testEar?: {
      start(): void;
      stop(): string;
      /** When the first sound since `start()` was played, Unix time in ms. */
      soundedMs: number | undefined;
    };
  }
}

/** Rate at which it is kept what a page plays, Hz. */
const RATE_HZ = 16_000;

/**
 * Runs in the page, before anything else: takes all that the page plays, by elements and by Web Audio, however often it changes between
 * them.
 */
function keepEar(rateHz: number): void {
  const blockSamples = 4096;
  const context = new AudioContext({ sampleRate: 48_000 });
  // The only recorder that needs no file, which the policy of the page would forbid.
  const recorder = context.createScriptProcessor(blockSamples, 1, 1);
  const step = context.sampleRate / rateHz;
  const connect = Reflect.get(AudioNode.prototype, 'connect') as (
    this: AudioNode,
    to: AudioNode,
  ) => AudioNode;
  connect.call(recorder, context.destination);
  let blocks: Int16Array[] | undefined;
  recorder.addEventListener('audioprocess', ({ inputBuffer }) => {
    if (!blocks) return;
    const samples = inputBuffer.getChannelData(0);
    const first = samples.findIndex((sample) => Math.abs(sample) > 0.1);
    if (first >= 0 && ear.soundedMs === undefined) {
      ear.soundedMs = Date.now() - ((samples.length - first) * 1000) / context.sampleRate;
    }
    const kept = Int16Array.from({ length: Math.floor(samples.length / step) }, (_, i) =>
      Math.round(32_767 * Math.max(-1, Math.min(1, samples[i * step]!))),
    );
    blocks.push(kept);
  });
  const take = (stream: MediaStream) => {
    const source = context.createMediaStreamSource(stream);
    connect.call(source, recorder);
    return source;
  };

  const sources = new WeakMap<object, MediaStreamAudioSourceNode>();
  const srcObject = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, 'srcObject');
  Object.defineProperty(HTMLMediaElement.prototype, 'srcObject', {
    ...srcObject,
    set(this: HTMLMediaElement, stream: MediaStream | null) {
      srcObject?.set?.call(this, stream);
      sources.get(this)?.disconnect();
      if (stream) sources.set(this, take(stream));
    },
  });
  AudioNode.prototype.connect = function (this: AudioNode, to: AudioNode) {
    if (to instanceof AudioDestinationNode && this.context instanceof AudioContext) {
      const tap = this.context.createMediaStreamDestination();
      connect.call(this, tap);
      take(tap.stream);
    }
    return connect.call(this, to);
  } as typeof AudioNode.prototype.connect;

  const ear: NonNullable<typeof window.testEar> = {
    soundedMs: undefined,
    start: () => {
      ear.soundedMs = undefined;
      blocks = [];
    },
    stop: () => {
      const all = blocks ?? [];
      blocks = undefined;
      const bytes = all.flatMap((block) => [...new Uint8Array(block.buffer)]);
      let text = '';
      for (let at = 0; at < bytes.length; at += 8192) {
        text += String.fromCharCode(...bytes.slice(at, at + 8192));
      }
      return btoa(text);
    },
  };
  window.testEar = ear;
}

/** Records all that a page plays, across changes of its transport. */
export class PageEar {
  readonly #page: Page;

  private constructor(page: Page) {
    this.#page = page;
  }

  /** Loads the page again, with an ear in it. */
  static async open(page: Page): Promise<PageEar> {
    await page.addInitScript(keepEar, RATE_HZ);
    await page.reload();
    return new PageEar(page);
  }

  /** Records from now on. */
  start(): Promise<void> {
    return this.#page.evaluate(() => window.testEar?.start());
  }

  /** When the first sound since `start()` was played, Unix time in ms; awaits it. */
  async soundedMs(): Promise<number> {
    const sounded = await this.#page.waitForFunction(() => window.testEar?.soundedMs);
    return (await sounded.jsonValue()) ?? Infinity;
  }

  /** Ends what `start()` began. @returns what was played in between */
  async stop(): Promise<Heard> {
    const base64 = await this.#page.evaluate(() => window.testEar?.stop());
    const bytes = Buffer.from(base64 ?? '', 'base64');
    const samples = Float32Array.from(
      { length: bytes.length >> 1 },
      (_, i) => bytes.readInt16LE(i * 2) / 32_768,
    );
    return { samples, rateHz: RATE_HZ };
  }
}
