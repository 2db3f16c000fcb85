import { defer } from '../deferred.ts';
import type { AudioAssets } from '../state.ts';
import type { PlayoutStats } from '../worklet/playout.ts';
import { limitLoading } from '../loading-time.ts';
import { isOfOtherRate, type MicrophoneSource, openSource } from '../microphone-source.ts';
import { onShown } from '../on-shown.ts';
import { openWorker } from './open-worker.ts';

const RATE_HZ = 48_000;
/** Longest wait for an answer, ms: a suspended context may not answer at all. */
const ANSWER_MS = 500;

/** Contexts of Chromium can play on a device of the caller's choice; Firefox's and Safari's cannot yet. */
type Sink = { setSinkId?: (deviceId: string) => Promise<void> };

type Capture = MicrophoneSource & { node: AudioWorkletNode };

/** Web Audio graph of audio over the WebSocket: microphone to frames, Opus packets to speakers. */
export class AudioGraph {
  readonly #context: AudioContext;
  readonly #worklet: string | URL;
  readonly #playout: AudioWorkletNode;
  readonly #decoder: Worker;
  #capture: Capture | undefined;
  #blocked: (() => void) | undefined;
  readonly #closing = new AbortController();
  #mix: MediaStreamAudioDestinationNode | undefined;
  #lastStats: PlayoutStats = { delayMs: 0, jitterMs: 0, underruns: 0, concealed: 0 };
  /** Callers of `playoutStats()` that wait. */
  readonly #asking: ((stats: PlayoutStats) => void)[] = [];

  /** @throws if the files of `assets` cannot be loaded, or the browser has no AudioWorklet or WebAssembly */
  static async open({ worklet, decoder: decoderUrl }: AudioAssets): Promise<AudioGraph> {
    const context = new AudioContext({ sampleRate: RATE_HZ, latencyHint: 'interactive' });
    const { port1, port2 } = new MessageChannel();
    const opening = openWorker(decoderUrl, 'play', [port1]);
    try {
      const [decoder] = await Promise.all([opening, addModule(context, worklet)]);
      return new AudioGraph(context, worklet, decoder, port2);
    } catch (error) {
      void context.close();
      opening.then(
        (decoder) => decoder.terminate(),
        () => undefined, // has ended it
      );
      throw error;
    }
  }

  private constructor(
    context: AudioContext,
    worklet: string | URL,
    decoder: Worker,
    source: MessagePort,
  ) {
    this.#context = context;
    this.#worklet = worklet;
    this.#decoder = decoder;
    this.#playout = new AudioWorkletNode(context, 'partyline-playout', {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    this.#playout.port.addEventListener('message', ({ data }: MessageEvent<PlayoutStats>) =>
      this.#asking.shift()?.(data),
    );
    this.#playout.port.start();
    this.#playout.port.postMessage('source', [source]);
    this.#playout.connect(context.destination);
  }

  /** True while the browser plays nothing until a click. */
  get isStopped(): boolean {
    return this.#context.state !== 'running';
  }

  /** True while the browser does not play, or does not record, until a click. */
  get isBlocked(): boolean {
    return this.isStopped || (this.#capture?.context ?? this.#context).state !== 'running';
  }

  /** The played audio, as a track. */
  get mixTrack(): MediaStreamTrack | undefined {
    if (!this.#mix) {
      this.#mix = this.#context.createMediaStreamDestination();
      this.#playout.connect(this.#mix);
    }
    return this.#mix.stream.getAudioTracks()[0];
  }

  /**
   * Calls back when the browser stops playing or recording, for a phone call or because its device failed, and when the page is visible
   * again and they have not resumed.
   */
  onBlocked(blocked: () => void): void {
    this.#blocked = blocked;
    this.#watch(this.#context);
    onShown(() => this.isBlocked && blocked(), this.#closing.signal);
  }

  #watch(context: AudioContext): void {
    context.addEventListener('statechange', () => {
      if (context.state !== 'running' && context.state !== 'closed') this.#blocked?.();
    });
  }

  /** Plays a packet; an empty one stands for one that was lost. */
  play(packet: ArrayBuffer): void {
    this.#decoder.postMessage(packet, [packet]);
  }

  /** Shortens the delay of what is played for as long as `isHurried` is true. */
  setHurried(isHurried: boolean): void {
    this.#playout.port.postMessage(isHurried ? 'hurry' : 'steady');
  }

  /**
   * Records this track, in place of the previous one.
   * @param take is given frames of 20 ms at 48 kHz
   * @throws {DOMException} the browser cannot record from it
   */
  async record(
    track: MediaStreamTrack,
    take: (frame: Float32Array<ArrayBuffer>) => void,
  ): Promise<void> {
    this.stopRecording();
    const { context, source } = await this.#openSource(track);
    const node = new AudioWorkletNode(context, 'partyline-capture', {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: 'explicit',
    });
    node.port.addEventListener('message', ({ data }: MessageEvent<Float32Array<ArrayBuffer>>) =>
      take(data),
    );
    node.port.start();
    source.connect(node);
    this.#capture = { context, source, node };
  }

  stopRecording(): void {
    if (!this.#capture) return;
    const { context, source, node } = this.#capture;
    this.#capture = undefined;
    source.disconnect();
    node.port.postMessage('stop');
    node.port.close();
    if (context !== this.#context) void context.close();
  }

  /** @throws {DOMException} no such device, or not allowed */
  async setSpeaker(deviceId: string): Promise<void> {
    await (this.#context as Sink).setSinkId?.(deviceId);
  }

  /** @throws {DOMException} the browser does not allow it */
  async resume(): Promise<void> {
    await Promise.all([this.#context.resume(), this.#capture?.context.resume()]);
  }

  /** Resolves with the last known statistics if the audio thread does not answer in time. */
  async playoutStats(): Promise<PlayoutStats & { outputMs: number }> {
    const stats = await new Promise<PlayoutStats>((resolve) => {
      this.#asking.push(resolve);
      this.#playout.port.postMessage('stats');
      setTimeout(() => resolve(this.#lastStats), ANSWER_MS);
    });
    this.#lastStats = stats;
    const { baseLatency, outputLatency } = this.#context;
    return { ...stats, outputMs: (baseLatency + (outputLatency || 0)) * 1000 };
  }

  close(): void {
    this.#closing.abort();
    this.stopRecording();
    this.#decoder.terminate();
    this.#playout.port.close();
    // Closing fails only if it is closed already.
    this.#context.close().catch(() => undefined);
  }

  /** Opens a source; Firefox records only at the rate of the microphone, which needs another context. */
  async #openSource(track: MediaStreamTrack): Promise<MicrophoneSource> {
    const context = this.#context;
    try {
      return { context, source: context.createMediaStreamSource(new MediaStream([track])) };
    } catch (error) {
      if (!isOfOtherRate(error)) throw error;
    }
    const other = openSource(track);
    try {
      await addModule(other.context, this.#worklet);
      this.#watch(other.context);
      return other;
    } catch (error) {
      void other.context.close();
      throw error;
    }
  }
}

/** @throws if the file cannot be loaded, or not in time */
async function addModule(context: AudioContext, url: string | URL): Promise<void> {
  const late = defer<void>();
  const endLimit = limitLoading(url, late.reject);
  try {
    await Promise.race([context.audioWorklet.addModule(url), late.promise]);
  } finally {
    endLimit();
  }
}
