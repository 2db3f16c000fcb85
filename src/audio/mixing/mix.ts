import type { Codecs } from '../codecs.ts';
import { FRAME_SAMPLES, parseAudioFormat, type SampleFormat } from '../format.ts';
import { Limiter } from './limiter.ts';
import { type MixOutput, nameOf, type PlannedMix, type SpeakerId } from './mix-plan.ts';
import { MixRates, type OddRates } from './mix-rates.ts';
import { OpusOutput } from './opus-output.ts';
import { openSampleWriter, upmix } from '../samples.ts';

/** Output of a mix in one format. */
type Output = {
  /** Name of the format. */
  name: string;
  write(frame: Float32Array): Buffer | undefined;
  /** Continues from the audio that listeners have heard: `last` is the frame of the mix before the next one. */
  prime(last: Float32Array): void;
  close(): void;
};

/** Gain of a speaker in a mix, and its previous gain, in the audio that the listeners have heard until now. */
type Level = { speaker: SpeakerId; gain: number; before: number };

/** Audio that Opus listeners have heard before: packets of a speaker, or another mix, which was `lateSamples` later than this one is now. */
export type HeardBefore = { speaker: SpeakerId } | { lateSamples: number };

/** Function that returns the present frame of a speaker; undefined if it has none. */
export type FrameOf = (speaker: SpeakerId) => Float32Array | undefined;

/**
 * One mix: a sum of speakers, encoded once in each format in which it is heard. It exists as long as it has listeners, so that
 * its encoder, limiter and resamplers keep their state.
 */
export class Mix {
  readonly #codecs: Codecs;
  readonly #onFault: (fault: unknown) => void;
  readonly #limiter = new Limiter();
  readonly #rates: MixRates;
  readonly #outputs = new Map<string, Output | OpusOutput>();
  /** Opus output, which is also one of the outputs, and the audio that its listeners have heard before its first frame. */
  #opus: OpusOutput | undefined;
  #heardBefore: HeardBefore | undefined;
  #planned: PlannedMix = { name: '', without: [], gains: [], gainsBefore: [], formats: [] };
  /** Speakers whose gain is not 1. */
  #levels: Level[] = [];
  /** Buffers of the frame of a tick and of the one before, used alternately. */
  readonly #frames = [new Float32Array(FRAME_SAMPLES), new Float32Array(FRAME_SAMPLES)] as const;
  /** Frame before the next one, as the listeners have heard it; undefined before the first. */
  #last: Float32Array | undefined;
  /** Outputs that have not produced a frame yet. */
  readonly #new = new Set<Output | OpusOutput>();

  /** @param oddRates of the room */
  constructor(codecs: Codecs, onFault: (fault: unknown) => void, oddRates: OddRates) {
    this.#codecs = codecs;
    this.#rates = new MixRates(codecs.openResampler, oddRates);
    this.#onFault = onFault;
  }

  /** True once the mix is heard: from then on no frame is held back. */
  get hasStarted(): boolean {
    return this.#last !== undefined;
  }

  /** Number of samples by which Opus listeners hear the mix later; undefined without such listeners. */
  get opusLateSamples(): number | undefined {
    return this.#opus?.lateSamples;
  }

  /** Audio that listeners have heard if they change to another mix now; undefined if none of them receives Opus. */
  get heard(): HeardBefore | undefined {
    if (!this.#opus) return undefined;
    return this.#new.has(this.#opus) ? this.#heardBefore : { lateSamples: this.#opus.lateSamples };
  }

  /** Returns the name that this sum has once some speakers have ended. */
  nameAfter(ended: ReadonlySet<SpeakerId>): string {
    const { without, gains } = this.#planned;
    return nameOf({
      without: without.filter((speaker) => !ended.has(speaker)),
      gains: gains.filter(([speaker]) => !ended.has(speaker)),
    });
  }

  hears(speaker: SpeakerId): boolean {
    return !this.#levels.some((level) => level.speaker === speaker && isSilent(level));
  }

  /**
   * Opens outputs for new formats, and closes those without listeners.
   * @param heardBefore audio that Opus listeners have heard until now, for an Opus output that is new
   * @param formerName name under which it was heard until now, if it has changed
   */
  plan(planned: PlannedMix, heardBefore?: HeardBefore, formerName?: string): void {
    this.#planned = planned;
    this.#levels = levelsOf(planned);
    if (this.hasStarted) this.#settle();
    for (const name of this.#outputs.keys()) if (!planned.formats.includes(name)) this.#drop(name);
    const isJoined = planned.joinedFrom?.some(
      (source) => source === 'nothing' || 'speaker' in source || source.mix !== formerName,
    );
    const opus = this.#opus;
    if (isJoined && opus && !this.#new.has(opus)) this.#attempt(opus, () => opus.beginAnew());
    for (const name of planned.formats) {
      if (this.#outputs.has(name)) continue;
      const format = parseAudioFormat(name);
      const output =
        format.codec === 'opus'
          ? this.#openOpus(name, heardBefore)
          : this.#openSamples(name, format);
      this.#outputs.set(name, output);
      this.#new.add(output);
    }
  }

  /** Continues from the audio that the listeners have heard: `sum` is the last frame of all speakers, `frameOf` that of one. */
  start(sum: Float32Array, frameOf: FrameOf): void {
    this.#last = this.#own(sum, frameOf, 'as before');
    this.#limiter.process(this.#last);
  }

  /**
   * Writes one frame in each format; none if no speaker of the mix has a frame.
   * @param sum sum of all speakers, 960 samples; not changed
   * @param sounding speakers that have a frame
   * @param lateBehind returns by how many samples the mix must be late for listeners that have received the packets of a speaker
   */
  deliver(
    sum: Float32Array,
    sounding: SpeakerId[],
    frameOf: FrameOf,
    to: MixOutput,
    lateBehind: (speaker: SpeakerId) => number = () => 0,
  ): void {
    const { name } = this.#planned;
    if (!sounding.some((speaker) => this.hears(speaker))) return;
    const frame = this.#own(sum, frameOf, 'as planned');
    this.#settle();
    this.#limiter.process(frame);
    const before = this.#last;
    this.#last = frame;
    // Before any output is written: outputs of one rate share the state of a resampler.
    for (const output of this.#new) {
      // A late thread may plan and mix in one go: the encoder is open at the next tick.
      if (output instanceof OpusOutput && !output.isOpen) continue;
      this.#new.delete(output);
      if (before) this.#attempt(output, () => this.#prime(output, before, lateBehind));
    }
    for (const output of this.#outputs.values()) {
      const bytes = this.#attempt(output, () => output.write(frame));
      if (bytes) to.mixed(name, output.name, bytes);
    }
  }

  close(): void {
    for (const output of this.#outputs.values()) output.close();
    this.#outputs.clear();
    this.#opus = undefined;
  }

  /** Returns the sum with the previous gains, or changing to the planned gains within the frame. */
  #own(sum: Float32Array, frameOf: FrameOf, until: 'as before' | 'as planned'): Float32Array {
    const frame = this.#frames[this.#last === this.#frames[0] ? 1 : 0];
    frame.set(sum);
    for (const { speaker, before, gain } of this.#levels) {
      addTo(frame, frameOf(speaker), before - 1, (until === 'as before' ? before : gain) - 1);
    }
    return frame;
  }

  /** Returns what the codec of an output returns. An output whose codec fails is closed: the next plan opens another. */
  #attempt<T>(output: Output | OpusOutput, work: () => T): T | undefined {
    try {
      return work();
    } catch (fault) {
      this.#onFault(fault);
      this.#drop(output.name);
      return undefined;
    }
  }

  #prime(
    output: Output | OpusOutput,
    before: Float32Array,
    lateBehind: (speaker: SpeakerId) => number,
  ): void {
    if (output instanceof OpusOutput) output.prime(before, this.#lateNow(lateBehind));
    else output.prime(before);
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
    if (output === this.#opus) this.#opus = undefined;
    output.close();
  }

  #openSamples(name: string, { codec, rateHz, channels }: SampleFormat): Output {
    const rate = this.#rates.open(rateHz);
    const writeSamples = openSampleWriter(codec);
    const write = (frame: Float32Array) => writeSamples(upmix(rate.process(frame), channels));
    return {
      name,
      write,
      prime: (frame) => void write(frame),
      close: () => rate.close(),
    };
  }

  #lateNow(lateBehind: (speaker: SpeakerId) => number): number {
    const before = this.#heardBefore;
    if (!before) return 0;
    return 'speaker' in before ? lateBehind(before.speaker) : before.lateSamples;
  }

  #openOpus(name: string, heardBefore: HeardBefore | undefined): OpusOutput {
    const output = new OpusOutput(name, this.#codecs.opus, (fault) => {
      this.#onFault(fault);
      // The next plan opens another.
      if (this.#opus === output) this.#drop(name);
    });
    this.#opus = output;
    this.#heardBefore = heardBefore;
    return output;
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

/** Duration of a change of gain, samples: less than a frame, because Opus listeners do not hear the end of a frame. */
const MOVE_SAMPLES = 720;

/** Adds `frame`, if present, times a gain, which changes linearly to `endGain`. */
export function addTo(
  sum: Float32Array,
  frame: Float32Array | undefined,
  gain: number,
  endGain = gain,
): void {
  if (!frame) return;
  const step = (endGain - gain) / MOVE_SAMPLES;
  for (let i = 0; i < MOVE_SAMPLES; i += 1) sum[i]! += frame[i]! * (gain + step * i);
  for (let i = MOVE_SAMPLES; i < FRAME_SAMPLES; i += 1) sum[i]! += frame[i]! * endGain;
}
