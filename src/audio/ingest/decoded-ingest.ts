import { counters } from '../../counters.ts';
import { PartylineError } from '../../protocol/errors.ts';
import type { Codecs } from '../codecs.ts';
import type { FrameDecoder } from '../decoding/decoder-thread.ts';
import type { DecodedSound, FrameCodec } from '../decoding/frame-codecs.ts';
import type { FrameReader, FrameSink } from './frame-reader.ts';
import { AT_ONCE, inTurn } from './held-audio.ts';
import { type Ingest, type IngestEvents, isCutBetween, type OpusTarget } from './ingest.ts';
import type { LastPackets } from './splice.ts';
import { SampleEncoder } from './sample-encoder.ts';
import { HEADS, StreamBudget, unreadable, TOO_MANY_RECORDINGS } from './stream-budget.ts';

/** Number of bytes without a frame after which a stream is refused. */
const MAX_UNREAD_BYTES = 1 << 20;
/** Maximum audio of one job, ms, and frames: other streams take turns after that. */
const JOB_MS = 100;
const MAX_JOB_FRAMES = 32;
/** Time over the budget of sound after which a stream is refused, ms. Until then frames beyond it are dropped. */
const MAX_OVER_MS = 5000;
/** Minimum duration as which a frame is counted, ms: each frame is work. */
const MIN_FRAME_MS = 2;
/**
 * Number of consecutive jobs without sound after which a stream is refused. The first frames of MP3 that is joined in its middle depend on
 * frames that did not arrive.
 */
const MAX_SILENT_JOBS = 25;
/**
 * Maximum age of a frame that is decoded, ms: a decoder thread with too much to do would else be later with each second. Messages of 2 s
 * are no sign of that.
 */
const MAX_LATE_MS = 3000;

type Frame = { bytes: Buffer; durationMs: number; rateHz: number; atMs: number };

export type DecodedFormat = {
  /** Name of the format, in messages for people. */
  name: string;
  codec: FrameCodec;
  openReader: (onFrame: FrameSink) => FrameReader;
  /** True for bytes that begin a new recording. */
  isStart: (bytes: Buffer) => boolean;
};

/** Ingest of compressed audio: cut into frames here, decoded in the decoder thread, and then encoded again. */
export class DecodedIngest implements Ingest {
  readonly #format: DecodedFormat;
  readonly #codecs: Codecs;
  readonly #target: OpusTarget;
  readonly #events: IngestEvents;
  readonly #decoder: FrameDecoder;
  #reader: FrameReader;
  #before: LastPackets | undefined;
  #encoder: { encoder: SampleEncoder; rateHz: number } | undefined;
  #frames: Frame[] = [];
  readonly #heads: StreamBudget;
  #unreadBytes = 0;
  #silentJobs = 0;
  #atMs = 0;
  #isSkipped = false;
  #isBusy = false;
  #isClosed = false;

  /** @param before last packets that were handed on before this ingest takes over, in the middle of a sound */
  constructor(
    format: DecodedFormat,
    codecs: Codecs,
    target: OpusTarget,
    events: IngestEvents,
    before?: LastPackets,
  ) {
    this.#format = format;
    this.#codecs = codecs;
    this.#target = target;
    this.#events = events;
    this.#before = before;
    this.#heads = new StreamBudget(HEADS, TOO_MANY_RECORDINGS, target.sound.onOver);
    this.#decoder = codecs.frames.open(format.codec);
    this.#reader = format.openReader(this.#take);
  }

  push(message: Buffer, atMs: number): void {
    this.#read(message, atMs, false);
  }

  /** Reads a skipped message without decoding its frames; heads are still used. */
  skip(message: Buffer, atMs: number): void {
    this.#read(message, atMs, true);
    this.#encoder?.encoder.skip();
  }

  isInTag(): boolean {
    return this.#reader.isInTag ?? false;
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#frames = [];
    this.#decoder.close();
    this.#encoder?.encoder.close();
  }

  #read(message: Buffer, atMs: number, isSkipped: boolean): void {
    if (this.#isClosed) return;
    this.#atMs = atMs;
    this.#isSkipped = isSkipped;
    this.#unreadBytes += message.length;
    try {
      if (this.#format.isStart(message)) this.#reader = this.#format.openReader(this.#take);
      this.#reader.push(message);
      if (this.#unreadBytes > MAX_UNREAD_BYTES) throw new Error('No audio was found for too long.');
    } catch (fault) {
      this.#fail(fault);
      return;
    }
    if (!this.#isBusy) this.#decodeAll().catch((fault: unknown) => this.#fail(fault));
  }

  readonly #take: FrameSink = (bytes, durationMs, rateHz) => {
    if (this.#isClosed) return;
    if (durationMs === 0) {
      this.#heads.spend(this.#atMs);
    } else {
      this.#unreadBytes = 0;
      this.#events.onFrame?.();
      if (this.#isSkipped) return;
      if (!this.#admitSound(durationMs)) return;
    }
    this.#frames.push({ bytes, durationMs, rateHz, atMs: this.#atMs });
  };

  /** Returns false for a frame beyond the budget. @throws {PartylineError} `audio_rate_exceeded` if there have been such frames for too long */
  #admitSound(durationMs: number): boolean {
    const { sound } = this.#target;
    if (sound.admit(Math.max(durationMs, MIN_FRAME_MS) / 1000, this.#atMs)) return true;
    if (sound.overMs >= MAX_OVER_MS) {
      throw new PartylineError('audio_rate_exceeded', 'Audio came far ahead of real time.');
    }
    return false;
  }

  async #decodeAll(): Promise<void> {
    this.#isBusy = true;
    for (this.#dropLate(); this.#frames.length > 0; this.#dropLate()) {
      if (this.#frames[0]!.durationMs === 0) {
        this.#decoder.begin(this.#frames.shift()!.bytes);
        continue;
      }
      const job = this.#nextJob();
      const sound = await this.#decoder.decode(job.map(({ bytes }) => bytes));
      if (this.#isClosed) return;
      counters.dropped.undecodable += sound.faults;
      this.#silentJobs = sound.samples.length > 0 ? 0 : this.#silentJobs + 1;
      if (this.#silentJobs >= MAX_SILENT_JOBS) throw new Error('The frames do not decode.');
      if (sound.samples.length === 0) continue;
      const encoder = await this.#encoderFor(sound.rateHz);
      // In turn, because the decoded sound of hundreds of streams may come at once.
      await inTurn(this.#target.turn ?? AT_ONCE, () => {
        // All messages of the job have arrived by the time of the last.
        if (!this.#isClosed) encoder?.push(asCharged(sound, job), job.at(-1)!.atMs);
      });
      if (this.#isClosed) return;
    }
    this.#isBusy = false;
  }

  /** Drops sound that the decoder thread was too late for; heads are still used. */
  #dropLate(): void {
    const isLate = ({ durationMs, atMs }: Frame) =>
      durationMs > 0 && this.#atMs - atMs > MAX_LATE_MS;
    const [first] = this.#frames;
    if (!first || !isLate(first)) return;
    const inTime = this.#frames.filter((frame) => !isLate(frame));
    counters.dropped.late += this.#frames.length - inTime.length;
    this.#frames = inTime;
    this.#encoder?.encoder.skip();
  }

  #nextJob(): Frame[] {
    let durationMs = 0;
    let count = 0;
    const first = this.#frames[0]!;
    while (count < Math.min(this.#frames.length, MAX_JOB_FRAMES) && durationMs < JOB_MS) {
      const frame = this.#frames[count]!;
      // A head begins another stream; what comes after a cut is not heard with what came before it.
      if (frame.durationMs === 0 || isCutBetween(this.#target, first.atMs, frame.atMs)) break;
      // The decoder says one rate for a job, the last.
      if (frame.rateHz !== first.rateHz) break;
      durationMs += frame.durationMs;
      count += 1;
    }
    return this.#frames.splice(0, count);
  }

  async #encoderFor(rateHz: number): Promise<SampleEncoder | undefined> {
    if (this.#encoder?.rateHz === rateHz) return this.#encoder.encoder;
    this.#target.sound.encoders.spend(this.#atMs);
    this.#encoder?.encoder.close();
    this.#encoder = undefined;
    const before = this.#before;
    this.#before = undefined;
    const encoder = await SampleEncoder.open(rateHz, this.#codecs, this.#target, before);
    if (this.#isClosed) {
      encoder.close();
      return undefined;
    }
    this.#encoder = { encoder, rateHz };
    return encoder;
  }

  #fail(fault: unknown): void {
    if (this.#isClosed) return;
    this.close();
    this.#events.onFault(unreadable(this.#format.name, fault));
  }
}

/**
 * Returns the last samples of a job, as many as were charged and one frame more: a decoder may be a frame late. Samples that are left of an
 * earlier rate come before them, and would be heard at the wrong pitch.
 */
function asCharged({ samples, rateHz }: DecodedSound, job: readonly Frame[]): Float32Array {
  const durationMs = job.reduce((sum, frame) => sum + frame.durationMs, 0);
  const longestMs = Math.max(...job.map((frame) => frame.durationMs));
  return samples.subarray(-Math.ceil(((durationMs + longestMs) * rateHz) / 1000));
}
