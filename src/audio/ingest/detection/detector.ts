import {
  MAX_SNIFFED_BYTES,
  mayContinueFrames,
  recognise,
  type RecognisedFormat,
} from '../../recognise.ts';
import { type Content, contentOf } from './content.ts';
import { type Detection, weigh } from './explanations.ts';
import { type TimedMessage, bytesPerMsOf, elapsedMsOf, pacedOf, paceOf } from './pace.ts';
import { isDigitalSilence, isOfEitherWidth } from './silence.ts';
import { isNoSound } from './no-sound.ts';
import { MAX_WEIGHED_BYTES, soundOf } from './sounding-bytes.ts';

export type { Detection } from './explanations.ts';

/** Minimum number of messages from which their interval is measured. */
const LEAST_MESSAGES = 3;
/** Longest time until a decision, ms. */
const DEADLINE_MS = 500;
/** Longest time until a decision if the network has stalled meanwhile, ms. */
const STALLED_DEADLINE_MS = 1000;
/** Number of held bytes from which a decision does not wait for the pace: almost three times those of the widest format in 1 s. */
export const MAX_HELD_BYTES = 1 << 20;
/** Number of held messages from which a decision does not wait: twice those of a sender of a message every 2 ms in 1 s. */
export const MAX_HELD_MESSAGES = 1024;
/** Confidence from which a decision is not delayed. */
const SURE = 0.98;

/** Minimum time between the weighing of two streams, ms, in which messages of other streams are read. */
const LEAST_BETWEEN_MS = 5;

/** Lengths of one sample of every channel, bytes. 6 is not needed: a length is divisible by 6 if it is by 2 and by 3. */
const FRAMES_BYTES = [2, 3, 4, 8];
/**
 * Minimum advantage, bits per byte, for which samples are counted from the start of the stream, although this cuts samples at the
 * borders of messages, and counting from the first message would not. A smaller one says nothing: two channels in swapped order cost about
 * the same.
 */
const CUT_BY_BITS = 0.02;

/**
 * Spreads the weighing of streams over time. If many were weighed in one turn of the event loop, their messages would be read late,
 * and their rates, which are derived from the arrival times, would be wrong.
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
  readonly #beforeBytes: number;
  readonly #mayBeginAnew: boolean;
  #startsAtBytes: number;
  #bytes = 0;
  #weighedBytes = 0;
  #content: Content | undefined;
  /** First bytes of the stream, in which structure is searched. */
  #start: Buffer = Buffer.alloc(0);
  #sniffedBytes = 0;
  #found: ReturnType<typeof recognise>;
  #isSilent = true;
  readonly #turns: WeighingTurns | undefined;

  /**
   * @param beforeBytes number of bytes of the stream before the first message; the last of them may be the beginning of a sample
   * @param turns shared by streams that are weighed at different moments
   * @param mayBeginAnew true if a sample may begin with the first message in any case, because the bytes before it may be no samples
   */
  constructor(beforeBytes = 0, turns?: WeighingTurns, mayBeginAnew = false) {
    this.#beforeBytes = beforeBytes;
    this.#startsAtBytes = beforeBytes;
    this.#turns = turns;
    this.#mayBeginAnew = mayBeginAnew;
  }

  /**
   * Number of bytes of the stream before the first message, the last of which may be the beginning of a sample; 0 if a sample begins with
   * the first message.
   */
  get startsAtBytes(): number {
    return this.#startsAtBytes;
  }

  /** True if only digital silence has come: a detected format is then a guess. */
  get isSilentSoFar(): boolean {
    return this.#isSilent;
  }

  /** True if the format detected from silence may have the wrong width of samples, with which sound would be noise. */
  get isOfEitherWidth(): boolean {
    const { message } = this.arrivals[0]!;
    const paced = pacedOf(this.arrivals) ?? this.arrivals;
    return isOfEitherWidth(message, bytesPerMsOf(paced));
  }

  /** Looks for a known structure in the first bytes, again each time their number has grown by half. */
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

  /** Returns the content so far. Bytes beyond {@link MAX_WEIGHED_BYTES} count only for the pace. */
  #contentSoFar(): Content {
    const isWhole = (this.#content?.sound.length ?? 0) >= MAX_WEIGHED_BYTES;
    if (!this.#content || !isWhole) this.#content = this.#readContent();
    return this.#content;
  }

  /** Reads the messages as samples, counted from the start of the stream, or from the first message if lengths and cost suggest it. */
  #readContent(): Content {
    const counted = contentOf(soundOf(this.arrivals, this.#beforeBytes));
    this.#startsAtBytes = this.#beforeBytes;
    if (!this.#mayBeginAnew || !areWholeAnew(this.arrivals, this.#beforeBytes)) return counted;
    const anew = contentOf(soundOf(this.arrivals, 0));
    // A sender that cuts its stream anywhere may send whole lengths by chance.
    if (leastBitsOf(counted) < leastBitsOf(anew) - CUT_BY_BITS) return counted;
    this.#startsAtBytes = 0;
    return anew;
  }

  /**
   * Processes one message.
   * @returns the format as soon as it is clear: at the latest after half a second, or after a second if the network has stalled
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
    // A client that resumes in the middle of a codec frame is recognised by its next frames. Only
    // an unknown format waits for them.
    const isUnknown = detection.format.codec === 'opaque';
    if (isUnknown && this.#start.length < MAX_SNIFFED_BYTES && mayContinueFrames(this.#start)) {
      return undefined;
    }
    // Repeated bytes say little: the format is then derived from the pace, which takes time.
    const isTelling = content.sound.length === 0 || content.isNovel;
    return isTelling && detection.confidence >= SURE ? detection : undefined;
  }
}

/** True if, for one of {@link FRAMES_BYTES}, each message consists of whole frames, while the bytes before them do not. */
const areWholeAnew = (arrivals: readonly TimedMessage[], beforeBytes: number): boolean =>
  FRAMES_BYTES.some(
    (frameBytes) =>
      beforeBytes % frameBytes !== 0 &&
      arrivals.every(({ message }) => message.length % frameBytes === 0),
  );

/** Returns the cost of the best explanation of some content, bits per byte. */
const leastBitsOf = ({ hypotheses, unexplainedBits }: Content): number =>
  Math.min(unexplainedBits, ...hypotheses.map(({ bitsPerByte }) => bitsPerByte));

/** Time between two messages from which a sender omits some of its silence, ms. */
const PAUSE_MS = 150;

/** Returns true for the first sound after silence of which the sender omitted some (DTX): the pace of such silence says nothing. */
export function endsSlowSilence(
  { arrivals, isSilentSoFar }: FormatDetector,
  message: Buffer,
  nowMs: number,
): boolean {
  if (arrivals.length === 0 || !isSilentSoFar || isDigitalSilence(message)) return false;
  return arrivals.some(({ atMs }, i) => (arrivals[i + 1]?.atMs ?? nowMs) - atMs > PAUSE_MS);
}

const ofStructure = (codec: RecognisedFormat): Detection => ({ format: { codec }, confidence: 1 });

/** Number of streams after which V8 has compiled the detection; without them each of the first streams would wait some ms. */
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
