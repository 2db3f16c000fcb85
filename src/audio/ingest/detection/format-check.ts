import { formatAudioFormat, type InputFormat, isInputOnly } from '../../format.ts';
import { type Detection, FormatDetector, type WeighingTurns } from './detector.ts';

/** Interval at which a moment of a stream is checked. */
const CHECK_EVERY_MS = 10_000;
/** The second look comes sooner: a stream may have begun with something else than what it goes on with, a tone mostly. */
const CHECK_SOON_MS = 3000;
/** A contradiction counts that is this sure. */
const CONTRADICTION_CONFIDENCE = 0.98;
/** Number of contradictions in a row after which the client is told; fewer where the format was detected, which is corrected within a second. */
const CONTRADICTIONS = 3;
const CONTRADICTIONS_OF_FOUND = 2;

/** Looks now and then whether a stream still is what it is taken for. */
export class FormatCheck {
  readonly #format: string;
  readonly #contradictions: number;
  readonly #turns: WeighingTurns;
  #detector: FormatDetector | undefined;
  /** Time from which messages are to be looked at. */
  dueAtMs = 0;
  #hasBeenChecked = false;
  #observed: string | undefined;
  #timesObserved = 0;
  #reported: string | undefined;

  /** @param isDeclared the client says that it sends this */
  constructor(format: InputFormat, isDeclared: boolean, turns: WeighingTurns) {
    this.#turns = turns;
    this.#format = formatAudioFormat(format);
    this.#contradictions = isDeclared ? CONTRADICTIONS : CONTRADICTIONS_OF_FOUND;
    // A format that is read by its structure is checked by its reader.
    if (isInputOnly(format.codec)) this.dueAtMs = Infinity;
  }

  /** Something of the stream is passed over: what is looked at must be of one piece. */
  skip(): void {
    this.#detector = undefined;
  }

  /** Looks at the stream from the next message on. */
  lookSoon(): void {
    this.dueAtMs = 0;
  }

  /** Looks at a message that comes at {@link dueAtMs} or later. @returns what the stream is instead, when that has become clear; once for each format that it turns into */
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
      this.#detector = undefined;
      this.dueAtMs = nowMs + (this.#hasBeenChecked ? CHECK_EVERY_MS : CHECK_SOON_MS);
      this.#hasBeenChecked = true;
      return undefined;
    }
    this.#detector = new FormatDetector(startsAtBytes + message.length, this.#turns);
    this.#timesObserved = observed === this.#observed ? this.#timesObserved + 1 : 1;
    this.#observed = observed;
    if (this.#timesObserved < this.#contradictions) return undefined;
    // A stream that is weighed with each message would take much of a core, whether this is acted upon or not.
    this.skip();
    this.#timesObserved = 0;
    this.dueAtMs = nowMs + CHECK_EVERY_MS;
    if (observed === this.#reported) return undefined;
    this.#reported = observed;
    return detection;
  }
}
