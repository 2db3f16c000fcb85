import {
  MAX_SNIFFED_BYTES,
  mayContinueFrames,
  recognise,
  type RecognisedCodec,
} from '../../recognise.ts';
import { type Content, contentOf } from './content.ts';
import { type Detection, weigh } from './explanations.ts';
import { type TimedMessage, bytesPerMsOf, elapsedMsOf, pacedOf, paceOf } from './pace.ts';
import { isDigitalSilence, isOfEitherWidth } from './silence.ts';
import { isNoSound } from './no-sound.ts';
import { MAX_WEIGHED_BYTES, soundOf } from './sounding-bytes.ts';

export type { Detection } from './explanations.ts';

/** Minimum number of messages that show their interval. */
const LEAST_MESSAGES = 3;
/** Longest time until a decision, ms. */
const DEADLINE_MS = 500;
/** Longest time until a decision when the network has stalled meanwhile, ms. */
const STALLED_DEADLINE_MS = 1000;
/** Maximum number of held bytes, almost three times those of the widest format in that time: beyond it the pace is not awaited. */
const MAX_HELD_BYTES = 1 << 20;
/** Maximum number of held messages: twice those of a second from a sender of a message every 2 ms. */
const MAX_HELD_MESSAGES = 1024;
/** Confidence from which a decision is not delayed. */
const SURE = 0.98;

/** Minimum time between the weighing of two streams, ms: messages that have arrived for others meanwhile must be read in time. */
const LEAST_BETWEEN_MS = 5;

/**
 * Schedules the weighing of streams one after another. Weighing many in one turn of the event loop would delay their own messages,
 * and so change the pace from which their rates are derived.
 */
export class WeighingTurns {
  #lastMs = -Infinity;

  /** Takes a turn; returns false if another stream has just been weighed. */
  take(nowMs: number): boolean {
    if (Math.abs(nowMs - this.#lastMs) < LEAST_BETWEEN_MS) return false;
    this.#lastMs = nowMs;
    return true;
  }
}

/**
 * Detects the format of a sender, from the bytes and the pace at which they arrive. Pure: the caller passes the time.
 * It weighs the cost of each format as an explanation (bits, {@link weigh}); a container is recognized by its first bytes.
 */
export class FormatDetector {
  /** All messages, which the caller plays once the format is known. */
  readonly arrivals: TimedMessage[] = [];
  /** Number of bytes of the stream before the messages, which may cut samples. */
  readonly startsAtBytes: number;
  #bytes = 0;
  #weighedBytes = 0;
  #content: Content | undefined;
  /** First bytes of the stream, in which structure is searched. */
  #start: Buffer = Buffer.alloc(0);
  #sniffedBytes = 0;
  #found: ReturnType<typeof recognise>;
  #isSilent = true;
  readonly #turns: WeighingTurns | undefined;

  /** @param turns shared by streams that are weighed at different moments */
  constructor(startsAtBytes = 0, turns?: WeighingTurns) {
    this.startsAtBytes = startsAtBytes;
    this.#turns = turns;
  }

  /** True if only digital silence came: a detected format is then a guess. */
  get isSilentSoFar(): boolean {
    return this.#isSilent;
  }

  /** True if the format detected from silence is a guess that might do harm. */
  get isOfEitherWidth(): boolean {
    const { message } = this.arrivals[0]!;
    const paced = pacedOf(this.arrivals) ?? this.arrivals;
    return isOfEitherWidth(message, bytesPerMsOf(paced));
  }

  /** Searches structure in the first bytes: again each time their number has grown by half. */
  #recognise(message: Buffer): ReturnType<typeof recognise> {
    if (this.#start.length < MAX_SNIFFED_BYTES) {
      this.#start = this.#start.length === 0 ? message : Buffer.concat([this.#start, message]);
      if (this.#start.length >= this.#sniffedBytes * 1.5) {
        this.#sniffedBytes = this.#start.length;
        this.#found = recognise(this.#start);
      }
    }
    return this.#found;
  }

  /** Returns the content so far; bytes beyond the maximum that is weighed add only to the pace. */
  #contentSoFar(): Content {
    const isWhole = (this.#content?.sound.length ?? 0) >= MAX_WEIGHED_BYTES;
    if (!this.#content || !isWhole) {
      this.#content = contentOf(soundOf(this.arrivals, this.startsAtBytes));
    }
    return this.#content;
  }

  /**
   * Processes one message.
   * @returns the format as soon as it is beyond doubt, and at the latest after half a second, or after one in which the
   *   network has stalled
   */
  push(message: Buffer, nowMs: number): Detection | undefined {
    this.arrivals.push({ message, atMs: nowMs });
    this.#bytes += message.length;
    this.#isSilent &&= isDigitalSilence(message);
    const found = this.#recognise(message);
    if (found && found !== 'more') return ofStructure(found);
    if (this.arrivals.length < LEAST_MESSAGES) return undefined;
    const elapsedMs = elapsedMsOf(this.arrivals);
    const intervalMs = elapsedMs / (this.arrivals.length - 1);
    const isFull = this.#bytes >= MAX_HELD_BYTES || this.arrivals.length >= MAX_HELD_MESSAGES;
    const isLate = isFull || elapsedMs + 2 * intervalMs > DEADLINE_MS;
    if (found === 'more' && !isLate) return undefined;
    // Weighing is expensive: it is repeated each time the number of bytes has grown by half.
    if (!isLate && this.#bytes < this.#weighedBytes * 1.5) return undefined;
    const paced = pacedOf(this.arrivals);
    if (!paced && !isFull && elapsedMs < STALLED_DEADLINE_MS) return undefined;
    if (this.#turns && !this.#turns.take(nowMs) && !isLate) return undefined;
    this.#weighedBytes = this.#bytes;
    const content = this.#contentSoFar();
    const messages = this.arrivals.map((arrival) => arrival.message);
    if (content.isNovel && isNoSound(messages, content.sound)) {
      return { format: { codec: 'opaque' }, confidence: 1 };
    }
    const detection = weigh({
      arrivals: this.arrivals,
      paced: paced ?? this.arrivals,
      pace: paceOf(paced ?? this.arrivals),
      content,
    });
    if (!detection || isLate) return detection;
    // A client that returns in the middle of a frame is known by its next frames; other formats do
    // not wait for that.
    const isUnknown = detection.format.codec === 'opaque';
    if (isUnknown && this.#start.length < MAX_SNIFFED_BYTES && mayContinueFrames(this.#start)) {
      return undefined;
    }
    // The bytes of repetitions say little: the format is derived from their pace, which takes time.
    const isTelling = content.sound.length === 0 || content.isNovel;
    return isTelling && detection.confidence >= SURE ? detection : undefined;
  }
}

/** Time between two messages from which a sender omits some of its silence, ms. */
const PAUSE_MS = 150;

/** True for the first sound after silence of which some was omitted, as with DTX: the pace of that silence says nothing. */
export function endsSlowSilence(
  { arrivals, isSilentSoFar }: FormatDetector,
  message: Buffer,
  nowMs: number,
): boolean {
  if (arrivals.length === 0 || !isSilentSoFar || isDigitalSilence(message)) return false;
  return arrivals.some(({ atMs }, i) => (arrivals[i + 1]?.atMs ?? nowMs) - atMs > PAUSE_MS);
}

const ofStructure = (codec: RecognisedCodec): Detection => ({ format: { codec }, confidence: 1 });

/** Number of streams with which the code is compiled at start: otherwise each of the first streams would wait some ms. */
const WARM_UP_STREAMS = 12;
const WARM_UP_MESSAGE_BYTES = 1920;

let isWarm = false;

/** Detects the format of synthetic streams, once in a process, so that the first client's messages do not wait for the compiler. */
export function warmUpDetection(): void {
  if (isWarm) return;
  isWarm = true;
  for (let stream = 0; stream < WARM_UP_STREAMS; stream += 1) {
    const detector = new FormatDetector();
    for (let i = 0; i < LEAST_MESSAGES + 1; i += 1) {
      const message = Buffer.alloc(WARM_UP_MESSAGE_BYTES);
      for (let at = 0; at < message.length; at += 2) {
        const phase = i * message.length + at + stream;
        message.writeInt16LE(Math.round(6000 * Math.sin(phase * 0.013) * Math.sin(phase ** 2)), at);
      }
      detector.push(message, i * 20);
    }
  }
}
