import { meterShare } from './level.ts';

/**
 * `?raw` in the page's address turns the browser's processing off, for tests that send a tone: noise suppression takes
 * a steady tone for noise and eats it.
 */
const isRaw = () => new URLSearchParams(location.search).has('raw');

/** The microphone that the browser gave us, and how loud it is. */
export class Microphone {
  readonly track: MediaStreamTrack;
  readonly #context = new AudioContext();
  readonly #analyser: AnalyserNode;
  readonly #samples: Float32Array<ArrayBuffer>;

  /** Asks for the microphone. @throws {DOMException} refused, none there, in use by another program */
  static async open(): Promise<Microphone> {
    if (!window.isSecureContext) throw new DOMException('Not secure', 'InsecureContextError');
    const processing = !isRaw();
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: {
        echoCancellation: processing,
        noiseSuppression: processing,
        autoGainControl: processing,
      },
    });
    return new Microphone(stream);
  }

  private constructor(stream: MediaStream) {
    const [track] = stream.getAudioTracks();
    if (!track) throw new DOMException('No audio track', 'NotFoundError');
    this.track = track;
    this.#analyser = new AnalyserNode(this.#context, { fftSize: 1024 });
    this.#samples = new Float32Array(this.#analyser.fftSize);
    this.#context.createMediaStreamSource(stream).connect(this.#analyser);
  }

  /** How loud it is now, as the share of a meter's length, 0 to 1; 0 while muted. */
  level(): number {
    this.#analyser.getFloatTimeDomainData(this.#samples);
    let power = 0;
    for (const sample of this.#samples) power += sample * sample;
    return meterShare(10 * Math.log10(power / this.#samples.length));
  }

  close(): void {
    this.track.stop();
    // Closing can only fail because it is closed already.
    this.#context.close().catch(() => undefined);
  }
}
