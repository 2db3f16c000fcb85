import { formatAudioFormat, type InputFormat, isInputOnly } from '../../format.ts';
import { type Detection, FormatDetector, type WeighingTurns } from './detector.ts';

/** Interval at which a moment of a stream is checked. */
const CHECK_EVERY_MS = 10_000;
/** Time until the second check, which comes sooner: a stream may have begun with other content, mostly a tone. */
const CHECK_SOON_MS = 3000;
/** Minimum confidence of a contradiction that counts. */
const CONTRADICTION_CONFIDENCE = 0.98;
/** Number of consecutive contradictions that are reported; fewer for a detected format, which is corrected within a second. */
const CONTRADICTIONS = 3;
const CONTRADICTIONS_OF_FOUND = 2;

/** Checks at intervals whether a stream is still of its format. */
export class FormatCheck {
  readonly #format: string;
  readonly #contradictions: number;
  readonly #turns: WeighingTurns;
  #detector: FormatDetector | undefined;
  /** Time of the next check, by `performance.now()`. */
  dueAtMs = 0;
  #hasBeenChecked = false;
  #observed: string | undefined;
  #timesObserved = 0;
  #reported: string | undefined;
  /** True if the running check began when the messages had changed. */
  #followsChange = false;

  /** @param isDeclared true if the client has declared the format */
  constructor(format: InputFormat, isDeclared: boolean, turns: WeighingTurns) {
    this.#turns = turns;
    this.#format = formatAudioFormat(format);
    this.#contradictions = isDeclared ? CONTRADICTIONS : CONTRADICTIONS_OF_FOUND;
    // A format that is read by its structure is checked by its reader.
    if (isInputOnly(format.codec)) this.dueAtMs = Infinity;
  }

  /** True while consecutive messages are checked. */
  get isRunning(): boolean {
    return this.#detector !== undefined;
  }

  /** Ends a running check, because part of the stream is skipped: checked messages must be consecutive. */
  skip(): void {
    this.#detector = undefined;
    this.#followsChange = false;
  }

  /** Starts a check with the next message. */
  lookSoon(): void {
    this.dueAtMs = 0;
  }

  /**
   * Starts a check with the next message, which is of another kind than those before it. A running check goes on if it began with such a
   * message, or has observed another format.
   */
  lookAnew(): void {
    if (this.isRunning && (this.#followsChange || this.#timesObserved > 0)) return;
    this.skip();
    this.lookSoon();
    this.#followsChange = true;
  }

  /** Checks a message that comes at {@link dueAtMs} or later. @returns the other format of the stream when it is clear, once for each format */
  push(message: Buffer, nowMs: number, startsAtBytes: number): Detection | undefined {
    this.#detector ??= new FormatDetector(startsAtBytes, this.#turns);
    const detection = this.#detector.push(message, nowMs);
    if (!detection) return undefined;
    const observed = formatAudioFormat(detection.format);
    const isSure =
      detection.confidence >= CONTRADICTION_CONFIDENCE && !this.#detector.isSilentSoFar;
    const isContradiction = isSure && observed !== this.#format;
    if (!isContradiction) {
      this.#timesObserved = 0;
      this.skip();
      this.dueAtMs = nowMs + (this.#hasBeenChecked ? CHECK_EVERY_MS : CHECK_SOON_MS);
      this.#hasBeenChecked = true;
      return undefined;
    }
    this.#detector = new FormatDetector(startsAtBytes + message.length, this.#turns);
    this.#timesObserved = observed === this.#observed ? this.#timesObserved + 1 : 1;
    this.#observed = observed;
    if (this.#timesObserved < this.#contradictions) return undefined;
    // Weighing a stream with each message would take much of a core, even if the result were
    // ignored.
    this.skip();
    this.#timesObserved = 0;
    this.dueAtMs = nowMs + CHECK_EVERY_MS;
    if (observed === this.#reported) return undefined;
    this.#reported = observed;
    return detection;
  }
}
