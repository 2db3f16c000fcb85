import type { InputFormat } from '../../format.ts';
import { type Detection, FormatDetector, type WeighingTurns } from './detector.ts';
import { elapsedMsOf, type TimedMessage } from './pace.ts';

/** Least time and least number of messages without sound after which a file may have ended. */
const LEAST_MS = 150;
const LEAST_MESSAGES = 3;
/** No page or frame of a file is as long: bytes of no known format are what follows it. */
const MAX_SOUNDLESS_BYTES = 1 << 17;
const LEAST_CONFIDENCE = 0.98;

/** Format of the stream that follows a file, and the messages of it so far. */
type Following = { format: InputFormat; arrivals: TimedMessage[] };

/**
 * Notices that another format follows a file (MP3, FLAC, AAC, WAVE, Ogg, WebM or MP4) on the same connection: its reader finds
 * no sound in the messages any more, and they are of a known format. Pure.
 */
export class FileCheck {
  readonly #codec: string;
  readonly #turns: WeighingTurns;
  /** Messages since the last sound. */
  #kept: TimedMessage[] = [];
  #soundlessBytes = 0;
  #detector: FormatDetector | undefined;

  constructor({ codec }: InputFormat, turns: WeighingTurns) {
    this.#codec = codec;
    this.#turns = turns;
  }

  /** Begins anew: there was sound of the file in what has come, or a tag comes next. */
  reset(): void {
    if (this.#soundlessBytes === 0) return;
    this.#soundlessBytes = 0;
    this.#kept = [];
    this.#detector = undefined;
  }

  /** Takes one message. @returns what follows the file, when that has become clear */
  push(message: Buffer, atMs: number): Following | undefined {
    this.#soundlessBytes += message.length;
    if (!this.#detector) this.#kept.push({ message, atMs });
    const isSoon = this.#kept.length < LEAST_MESSAGES || elapsedMsOf(this.#kept) < LEAST_MS;
    if (!this.#detector && isSoon) return undefined;
    const detection = this.#detector?.push(message, atMs) ?? this.#begin();
    if (!detection) return undefined;
    const { arrivals, isSilentSoFar } = this.#detector!;
    this.#detector = undefined;
    return !isSilentSoFar && this.#isOther(detection)
      ? { format: detection.format, arrivals }
      : undefined;
  }

  /** Begins to detect with what was kept. */
  #begin(): Detection | undefined {
    if (this.#detector) return undefined;
    const detector = new FormatDetector(0, this.#turns);
    this.#detector = detector;
    const detections = this.#kept.map(({ message, atMs }) => detector.push(message, atMs));
    this.#kept = [];
    return detections.findLast((detection) => detection !== undefined);
  }

  /** Compressed bytes that wait for the end of their page are of no format. */
  #isOther({ format, confidence }: Detection): boolean {
    const { codec } = format;
    if (codec === 'opaque') return this.#soundlessBytes > MAX_SOUNDLESS_BYTES;
    return confidence >= LEAST_CONFIDENCE && codec !== this.#codec;
  }
}
