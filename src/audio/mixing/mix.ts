import type { Codecs } from '../codecs.ts';
import { FRAME_SAMPLES, parseAudioFormat, SAMPLE_RATE_HZ, type SampleFormat } from '../format.ts';
import { Limiter } from './limiter.ts';
import type { MixOutput, PlannedMix, SpeakerId } from './mix-plan.ts';
import type { OpusEncoder } from '../opus-codec.ts';
import { openSampleWriter, upmix } from '../samples.ts';

/** One sum that somebody hears, turned once into each format in which it is heard. */
type Output = {
  /** The name of its format. */
  name: string;
  write(frame: Float32Array): Buffer | undefined;
  /** Takes in a frame that the listeners have heard from another source. */
  prime(frame: Float32Array): void;
  close(): void;
};

/** Gain of a speaker in a mix, and its former gain in the audio that the listeners have heard until now. */
type Level = { speaker: SpeakerId; gain: number; before: number };

/** The frame that a speaker has at a moment; undefined if it has none. */
export type FrameOf = (speaker: SpeakerId) => Float32Array | undefined;

/**
 * One sum that somebody hears. It lives as long as anybody hears it, so that its encoder, limiter and resamplers carry
 * their state.
 */
export class Mix {
  readonly #codecs: Codecs;
  readonly #onFault: (fault: unknown) => void;
  readonly #limiter = new Limiter();
  readonly #outputs = new Map<string, Output>();
  #planned: PlannedMix = { name: '', without: [], gains: [], gainsBefore: [], formats: [] };
  /** Speakers whose gain is not 1. */
  #levels: Level[] = [];
  /** In turn the frame of a tick and the one before it. */
  readonly #frames = [new Float32Array(FRAME_SAMPLES), new Float32Array(FRAME_SAMPLES)] as const;
  /** The frame before the next one, as its listeners have heard it; undefined before the first. */
  #last: Float32Array | undefined;
  /** Those that have not made a frame yet. */
  readonly #new = new Set<Output>();

  constructor(codecs: Codecs, onFault: (fault: unknown) => void) {
    this.#codecs = codecs;
    this.#onFault = onFault;
  }

  /** True once it is heard: from then on a frame is not held back. */
  get hasStarted(): boolean {
    return this.#last !== undefined;
  }

  hears(speaker: SpeakerId): boolean {
    return !this.#levels.some((level) => level.speaker === speaker && isSilent(level));
  }

  /** Opens outputs for new formats, closes those that nobody hears any more. */
  plan(planned: PlannedMix): void {
    this.#planned = planned;
    this.#levels = levelsOf(planned);
    if (this.hasStarted) this.#settle();
    for (const name of this.#outputs.keys()) if (!planned.formats.includes(name)) this.#drop(name);
    for (const name of planned.formats) {
      if (this.#outputs.has(name)) continue;
      const format = parseAudioFormat(name);
      const output =
        format.codec === 'opus' ? this.#openOpus(name) : this.#openSamples(name, format);
      this.#outputs.set(name, output);
      this.#new.add(output);
    }
  }

  /** Joins on to what its listeners have heard: `sum` is the last frame of everybody, `frameOf` that of one. */
  start(sum: Float32Array, frameOf: FrameOf): void {
    this.#last = this.#own(sum, frameOf, 'as before');
    this.#limiter.process(this.#last);
  }

  /**
   * Makes one frame in each format; nothing, if nobody in it makes a sound.
   * @param sum of everybody, 960 samples; left as it is
   * @param sounding those who have a frame
   */
  deliver(sum: Float32Array, sounding: SpeakerId[], frameOf: FrameOf, to: MixOutput): void {
    const { name } = this.#planned;
    if (!sounding.some((speaker) => this.hears(speaker))) return;
    const frame = this.#own(sum, frameOf, 'as planned');
    this.#settle();
    this.#limiter.process(frame);
    for (const output of this.#new) if (this.#last) output.prime(this.#last);
    this.#new.clear();
    this.#last = frame;
    for (const output of this.#outputs.values()) {
      const bytes = output.write(frame);
      if (bytes) to.mixed(name, output.name, bytes);
    }
  }

  close(): void {
    for (const output of this.#outputs.values()) output.close();
    this.#outputs.clear();
  }

  /** The sum as its listeners have heard it, or as they are to hear it from its end on. */
  #own(sum: Float32Array, frameOf: FrameOf, until: 'as before' | 'as planned'): Float32Array {
    const frame = this.#frames[this.#last === this.#frames[0] ? 1 : 0];
    frame.set(sum);
    for (const { speaker, before, gain } of this.#levels) {
      addTo(frame, frameOf(speaker), before - 1, (until === 'as before' ? before : gain) - 1);
    }
    return frame;
  }

  /** Ends all gradual changes of gain. */
  #settle(): void {
    for (const level of this.#levels) level.before = level.gain;
  }

  #drop(name: string): void {
    const output = this.#outputs.get(name);
    if (!output) return;
    this.#outputs.delete(name);
    this.#new.delete(output);
    output.close();
  }

  #openSamples(name: string, { codec, rateHz, channels }: SampleFormat): Output {
    const resampler =
      rateHz === SAMPLE_RATE_HZ ? undefined : this.#codecs.openResampler(SAMPLE_RATE_HZ, rateHz);
    const writeSamples = openSampleWriter(codec);
    const write = (frame: Float32Array) =>
      writeSamples(upmix(resampler ? resampler.process(frame) : frame, channels));
    return {
      name,
      write,
      prime: (frame) => void write(frame),
      close: () => resampler?.close(),
    };
  }

  /** Opening takes microseconds but is asynchronous; it is done before the next tick of the clock. */
  #openOpus(name: string): Output {
    let encoder: OpusEncoder | undefined;
    let isClosed = false;
    const open = async () => {
      const opened = await this.#codecs.opus.createEncoder(SAMPLE_RATE_HZ);
      if (isClosed) opened.close();
      else encoder = opened;
    };
    open().catch((fault: unknown) => {
      this.#onFault(fault);
      // The next plan opens another.
      if (!isClosed) this.#drop(name);
    });
    return {
      name,
      write: (frame) => encoder?.encode(frame),
      prime: (frame) => encoder?.prime(frame),
      close: () => {
        isClosed = true;
        encoder?.close();
        encoder = undefined;
      },
    };
  }
}

const isSilent = ({ gain, before }: Level) => gain === 0 && before === 0;

function levelsOf({ without, gains, gainsBefore }: PlannedMix): Level[] {
  const gainOf = new Map([
    ...without.map((speaker): [SpeakerId, number] => [speaker, 0]),
    ...gains,
  ]);
  const beforeOf = new Map(gainsBefore);
  return [...new Set([...gainOf.keys(), ...beforeOf.keys()])].map((speaker) => {
    const gain = gainOf.get(speaker) ?? 1;
    return { speaker, gain, before: beforeOf.get(speaker) ?? gain };
  });
}

/** Adds `frame`, if there is one, times a gain, which moves linearly if it is to end as another one. */
export function addTo(
  sum: Float32Array,
  frame: Float32Array | undefined,
  gain: number,
  endGain = gain,
): void {
  if (!frame) return;
  const step = (endGain - gain) / FRAME_SAMPLES;
  for (let i = 0; i < FRAME_SAMPLES; i += 1) sum[i]! += frame[i]! * (gain + step * i);
}
