import type { InputFormat } from '../../format.ts';
import { type Detection, FormatDetector, type WeighingTurns } from './detector.ts';
import { elapsedMsOf, type TimedMessage } from './pace.ts';

/** Minimum time, ms, and number of messages without sound after which a file may have ended. */
const LEAST_MS = 150;
const LEAST_MESSAGES = 3;
/** Number of bytes without sound after which an unknown format counts as following the file: no page or frame of a file is as long. */
const MAX_SOUNDLESS_BYTES = 1 << 17;
const LEAST_CONFIDENCE = 0.98;

/** Format of the stream that follows a file, and the messages of it so far. */
type Following = { format: InputFormat; arrivals: TimedMessage[] };

/**
 * Detects that another format follows a file (MP3, FLAC, AAC, WAVE, Ogg, WebM or MP4) on the same connection: the reader of the file finds
 * no more sound in the messages, and they are of a known format. Pure.
 */
export class FileCheck {
  readonly #codec: string;
  readonly #turns: WeighingTurns;
  /** Messages since the last frame or sound. */
  #kept: TimedMessage[] = [];
  #soundlessBytes = 0;
  #detector: FormatDetector | undefined;

  constructor({ codec }: InputFormat, turns: WeighingTurns) {
    this.#codec = codec;
    this.#turns = turns;
  }

  /** Starts the check again, after a frame or sound of the file, or before a tag. */
  reset(): void {
    if (this.#soundlessBytes === 0) return;
    this.#soundlessBytes = 0;
    this.#kept = [];
    this.#detector = undefined;
  }

  /** Processes one message. @returns the stream that follows the file, once its format is clear */
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

  /** Begins the detection with the kept messages. */
  #begin(): Detection | undefined {
    if (this.#detector) return undefined;
    const detector = new FormatDetector(0, this.#turns);
    this.#detector = detector;
    const detections = this.#kept.map(({ message, atMs }) => detector.push(message, atMs));
    this.#kept = [];
    return detections.findLast((detection) => detection !== undefined);
  }

  /** True for another format than that of the file; compressed bytes whose page is incomplete look like an unknown one. */
  #isOther({ format, confidence }: Detection): boolean {
    const { codec } = format;
    if (codec === 'opaque') return this.#soundlessBytes > MAX_SOUNDLESS_BYTES;
    return confidence >= LEAST_CONFIDENCE && codec !== this.#codec && !this.#isContained(codec);
  }

  /** True for bare FLAC in Ogg FLAC: the frames within a page, which is read when it is complete, look like it. */
  #isContained(codec: InputFormat['codec']): boolean {
    return this.#codec === 'ogg_flac' && codec === 'flac';
  }
}
