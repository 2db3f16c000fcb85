import { JitterBuffer, type JitterBufferLimits } from '../../rtp/jitter-buffer.ts';
import type { Codecs } from '../codecs.ts';
import { addTo, type HeardBefore, Mix } from './mix.ts';
import type { OddRates } from './mix-rates.ts';
import type { TickReport } from './mix-engine.ts';
import type { HeardSource, MixOutput, MixPacket, MixPlan, SpeakerId } from './mix-plan.ts';
import { MixedSpeaker } from './mixed-speaker.ts';
import { FRAME_SAMPLES } from '../format.ts';

/** Interval, in ticks, of the check whether listeners of a mix can continue with a speaker's packets (`isAlike`). */
const LOOK_TICKS = 4;

/**
 * Mix engine of a room: receives the packets of mixed speakers, and makes a frame of each mix every 20 ms.
 * It decodes each speaker once, sums once, and encodes each distinct mix and format once. It knows codecs and
 * the ids of speakers, but neither peers nor a clock, so that it can run on any thread.
 */
export class LocalMixEngine {
  readonly #codecs: Codecs;
  readonly #limits: JitterBufferLimits;
  readonly #output: MixOutput;
  readonly #onFault: (fault: unknown) => void;
  readonly #speakers = new Map<SpeakerId, MixedSpeaker>();
  readonly #mixes = new Map<string, Mix>();
  readonly #oddRates: OddRates = { open: 0 };
  readonly #sum = new Float32Array(FRAME_SAMPLES);
  #ticks = 0;
  /** Speakers whose sound ends in the next tick. */
  #leaving = new Set<SpeakerId>();

  /**
   * @param output receives the frames, during {@link tick}
   * @param onFault called with an exception of a codec or a listener; the rest of the room is not affected
   */
  constructor(
    codecs: Codecs,
    limits: JitterBufferLimits,
    output: MixOutput,
    onFault: (fault: unknown) => void,
  ) {
    this.#codecs = codecs;
    this.#limits = limits;
    this.#output = output;
    this.#onFault = onFault;
  }

  /** Applies a plan from now on. */
  apply(plan: MixPlan): void {
    for (const start of plan.added) {
      const buffer = new JitterBuffer(this.#limits, start.pace);
      const speaker = new MixedSpeaker(buffer, start);
      this.#speakers.set(start.id, speaker);
      speaker.open(this.#codecs.opus).catch(this.#onFault);
    }
    const ended = new Set<SpeakerId>();
    for (const [id, speaker] of this.#speakers) {
      if (plan.speakers.includes(id)) continue;
      ended.add(id);
      this.#speakers.delete(id);
      speaker.close();
    }
    this.#leaving = new Set(plan.leaving);
    const heardBefore = plan.mixes.map(({ joinedFrom = [] }) => {
      const source = joinedFrom.find((each) => each !== 'nothing');
      return source && this.#heardIn(source);
    });
    const isPlanned = (name: string) => plan.mixes.some((planned) => planned.name === name);
    const formerNames = new Map<string, string>();
    for (const [name, mix] of this.#mixes) {
      if (isPlanned(name)) continue;
      this.#mixes.delete(name);
      const goesOnAs = mix.nameAfter(ended);
      if (isPlanned(goesOnAs) && !this.#mixes.has(goesOnAs)) {
        this.#mixes.set(goesOnAs, mix);
        formerNames.set(goesOnAs, name);
      } else mix.close();
    }
    for (const [i, planned] of plan.mixes.entries()) {
      const mix =
        this.#mixes.get(planned.name) ?? new Mix(this.#codecs, this.#onFault, this.#oddRates);
      this.#mixes.set(planned.name, mix);
      mix.plan(planned, heardBefore[i], formerNames.get(planned.name));
    }
  }

  /** Receives a packet of a mixed speaker. */
  insert(id: SpeakerId, packet: MixPacket, nowMs: number): void {
    this.#speakers.get(id)?.insert(packet, nowMs);
  }

  /** Mixes the next 20 ms, or skips them; parameters as for `MixEngine.tick`. */
  tick(nowMs: number, movedMs: number, isSkipped = false): TickReport {
    const startedMs = performance.now();
    try {
      if (movedMs !== 0) for (const speaker of this.#speakers.values()) speaker.moveTicks(movedMs);
      if (isSkipped) this.#skip(nowMs);
      else this.#mix(nowMs);
    } catch (fault) {
      this.#onFault(fault);
    }
    const dropped = { late: 0, undecodable: 0 };
    const depth = { speakers: this.#speakers.size, sumMs: 0, maxMs: 0 };
    for (const speaker of this.#speakers.values()) {
      speaker.takeDropped(dropped);
      depth.sumMs += speaker.depthMs;
      depth.maxMs = Math.max(depth.maxMs, speaker.depthMs);
    }
    return { costMs: performance.now() - startedMs, isSkipped, dropped, depth };
  }

  #mix(nowMs: number): void {
    for (const speaker of this.#speakers.values()) speaker.begin(nowMs);
    const started = this.#startMixes();
    if (!started) return;
    for (const [id, speaker] of this.#speakers) this.#play(id, speaker, nowMs);
    const frameOf = (id: SpeakerId) => this.#speakers.get(id)?.frame;
    const sounding = [...this.#speakers.keys()].filter((id) => frameOf(id));
    const sum = sumOf(sounding.map(frameOf), this.#sum);
    const lateBehind = (id: SpeakerId) => this.#speakers.get(id)?.lateBehindSamples ?? 0;
    for (const mix of sum ? started : []) {
      mix.deliver(sum!, sounding, frameOf, this.#output, lateBehind);
    }
    this.#ticks += 1;
    const isLookDue = this.#ticks % LOOK_TICKS === 0;
    for (const [id, speaker] of this.#speakers) {
      this.#reportPlayed(id, speaker);
      if (speaker.isPausing) this.#output.paused(id, 'pause');
      // Most ticks end within a long packet.
      else if ((isLookDue || speaker.isLong) && this.#isAlike(id, speaker, sounding)) {
        this.#output.paused(id, 'alike');
      } else if (speaker.endsLong) this.#output.paused(id, 'end');
    }
  }

  /** Drops the next 20 ms of all speakers, so that neither they nor their jitter buffers fall behind. */
  #skip(nowMs: number): void {
    for (const [id, speaker] of this.#speakers) {
      this.#play(id, speaker, nowMs, true);
      this.#reportPlayed(id, speaker);
    }
  }

  /** Reports the packets of a speaker that have been played, and the concealed audio. */
  #reportPlayed(id: SpeakerId, speaker: MixedSpeaker): void {
    speaker.passOn((packet, restSamples) => this.#output.passed(id, packet, restSamples));
    const concealedSamples = speaker.takeConcealed();
    if (concealedSamples > 0) this.#output.concealed(id, concealedSamples);
  }

  /** Plays the next frame of a speaker, or drops it. A speaker whose decoder fails is silent until it begins to talk again. */
  #play(id: SpeakerId, speaker: MixedSpeaker, nowMs: number, isSkipped = false): void {
    try {
      if (isSkipped) speaker.skip(nowMs);
      else if (this.#leaving.has(id)) speaker.fadeOut(nowMs);
      else speaker.pull(nowMs);
    } catch (fault) {
      this.#onFault(fault);
      speaker.close();
    }
  }

  #heardIn(source: HeardSource): HeardBefore | undefined {
    return 'speaker' in source ? source : this.#mixes.get(source.mix)?.heard;
  }

  /** True if all listeners that hear a speaker alone, as Opus, can continue with its packets. */
  #isAlike(id: SpeakerId, speaker: MixedSpeaker, sounding: SpeakerId[]): boolean {
    let isAlike = false;
    for (const mix of this.#mixes.values()) {
      const { opusLateSamples } = mix;
      if (opusLateSamples === undefined || !mix.hears(id)) continue;
      if (sounding.some((other) => other !== id && mix.hears(other))) continue;
      if (!speaker.isAlike(opusLateSamples)) return false;
      isAlike = true;
    }
    return isAlike;
  }

  close(): void {
    for (const mix of this.#mixes.values()) mix.close();
    this.#mixes.clear();
    for (const speaker of this.#speakers.values()) speaker.close();
    this.#speakers.clear();
  }

  /**
   * Returns the mixes of this tick; undefined if all are new and must wait, because the next packet of a speaker that their
   * listeners already hear has not arrived and would be skipped.
   */
  #startMixes(): Mix[] | undefined {
    const awaited = [...this.#speakers]
      .filter(([id, speaker]) => speaker.isAwaited && !this.#leaving.has(id))
      .map(([id]) => id);
    const mixes = [...this.#mixes.values()];
    const isWaiting = (mix: Mix) => !mix.hasStarted && awaited.some((id) => mix.hears(id));
    if (mixes.length > 0 && mixes.every(isWaiting)) return undefined;
    const started: Mix[] = [];
    for (const mix of mixes) {
      if (isWaiting(mix)) continue;
      if (!mix.hasStarted) {
        const previousOf = (id: SpeakerId) => this.#speakers.get(id)?.previous;
        const silence = new Float32Array(FRAME_SAMPLES);
        const sum = sumOf([...this.#speakers.keys()].map(previousOf), silence);
        mix.start(sum ?? silence, previousOf);
      }
      started.push(mix);
    }
    return started;
  }
}

/** Returns the sum of the frames that are present, in `sum`; undefined if there are none. */
function sumOf(frames: (Float32Array | undefined)[], sum: Float32Array): Float32Array | undefined {
  const [first, ...others] = frames.filter((frame) => frame !== undefined);
  if (!first) return undefined;
  sum.set(first);
  for (const frame of others) addTo(sum, frame, 1);
  return sum;
}
