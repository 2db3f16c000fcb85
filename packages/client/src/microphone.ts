import { meterShare } from './level.ts';
import { openSource } from './microphone-source.ts';
import { onShown } from './on-shown.ts';

/** Length of sound whose level is measured, samples. */
const METER_SAMPLES = 1024;

export type MicrophoneOptions = {
  /** Id of a `MediaDeviceInfo`; without it, the browser's default microphone. */
  deviceId?: string;
  /**
   * False to switch off the browser's echo cancellation, noise suppression and gain control: music and test
   * tones do not survive them.
   */
  processing?: boolean;
};

type Meter = { context: AudioContext; analyser: AnalyserNode };

/** A microphone of the browser, and its level. */
export class Microphone {
  readonly track: MediaStreamTrack;
  /** Undefined if the browser cannot measure what it can send. */
  readonly #meter: Meter | undefined;
  readonly #closing = new AbortController();
  readonly #samples = new Float32Array(METER_SAMPLES);

  /** Asks for a microphone. @throws {DOMException} refused, not found, in use by another program, page not secure */
  static async open({
    deviceId = '',
    processing = true,
  }: MicrophoneOptions = {}): Promise<Microphone> {
    if (!window.isSecureContext) throw new DOMException('Not secure', 'InsecureContextError');
    const stream = await navigator.mediaDevices.getUserMedia({
      audio: {
        ...(deviceId !== '' && { deviceId: { exact: deviceId } }),
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
    this.#meter = openMeter(track);
    if (this.#meter) keepRunning(this.#meter.context, this.#closing.signal);
  }

  /** Id of its device; empty if the browser does not expose it. */
  get deviceId(): string {
    return this.track.getSettings().deviceId ?? '';
  }

  /** Returns the present level, as the share of a meter's length, 0 to 1; 0 while muted, or if the browser cannot measure it. */
  level(): number {
    if (!this.#meter) return 0;
    this.#meter.analyser.getFloatTimeDomainData(this.#samples);
    let power = 0;
    for (const sample of this.#samples) power += sample * sample;
    return meterShare(10 * Math.log10(power / this.#samples.length));
  }

  /** Stops the track, which releases the device. */
  close(): void {
    this.#closing.abort();
    this.track.stop();
    // Closing fails only if it is closed already.
    this.#meter?.context.close().catch(() => undefined);
  }
}

function openMeter(track: MediaStreamTrack): Meter | undefined {
  try {
    const { context, source } = openSource(track);
    const analyser = new AnalyserNode(context, { fftSize: METER_SAMPLES });
    source.connect(analyser);
    return { context, analyser };
  } catch {
    return undefined;
  }
}

/** Resumes a context that the browser has stopped, for a phone call or while the page was hidden. */
function keepRunning(context: AudioContext, signal: AbortSignal): void {
  const resume = () => {
    // Without a meter the microphone can still be sent.
    if (context.state !== 'running') context.resume().catch(() => undefined);
  };
  context.addEventListener('statechange', resume, { signal });
  onShown(resume, signal);
}
