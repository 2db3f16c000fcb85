import { MAX_SNIFFED_BYTES, recognise, type RecognisedCodec } from '../../recognise.ts';
import { type Content, contentOf, type Detection, weigh } from './explanations.ts';
import { type TimedMessage, bytesPerMsOf, elapsedMsOf, pacedOf, paceOf } from './pace.ts';
import { isDigitalSilence, isOfEitherWidth } from './silence.ts';
import { isNoSound } from './no-sound.ts';
import { MAX_WEIGHED_BYTES, soundOf } from './sounding-bytes.ts';

export type { Detection } from './explanations.ts';

/** Least number of messages that shows how far apart they are. */
const LEAST_MESSAGES = 3;
/** Longest time until a decision, ms. */
const DEADLINE_MS = 500;
/** The same when the network has stalled meanwhile. */
const STALLED_DEADLINE_MS = 1000;
/** Almost three times what the widest format takes in that time: of who sends it at once no pace is waited for. */
const MAX_HELD_BYTES = 1 << 20;
/** Messages that are held at most: twice what comes in a second from a sender of a message every 2 ms. */
const MAX_HELD_MESSAGES = 1024;
/** Surer than this there is nothing to wait for. */
const SURE = 0.98;

/** Least time between two streams that are weighed: what has come for others meanwhile is to be read in time. */
const LEAST_BETWEEN_MS = 5;

/**
 * Lets streams be weighed one after another. To weigh many in one turn of the event loop would hold up their own messages, and
 * so change the pace by which their rates are told.
 */
export class WeighingTurns {
  #lastMs = -Infinity;

  /** True if nothing has been weighed just now; then it is somebody's turn. */
  take(nowMs: number): boolean {
    if (Math.abs(nowMs - this.#lastMs) < LEAST_BETWEEN_MS) return false;
    this.#lastMs = nowMs;
    return true;
  }
}

/**
 * Finds out what a sender sends, from the bytes and the pace at which they come. Pure: the caller says what time it is.
 * It weighs what each format would have to explain (bits, {@link weigh}); a container tells by its first bytes.
 */
export class FormatDetector {
  /** All that came; for the caller to play once the format is known. */
  readonly arrivals: TimedMessage[] = [];
  /** Number of bytes of the stream before that: messages may cut samples in two. */
  readonly startsAtBytes: number;
  #bytes = 0;
  #weighedBytes = 0;
  #content: Content | undefined;
  /** First bytes of the stream, in which structure is looked for. */
  #start: Buffer = Buffer.alloc(0);
  #sniffedBytes = 0;
  #found: ReturnType<typeof recognise>;
  #isSilent = true;
  readonly #turns: WeighingTurns | undefined;

  /** @param turns shared by streams of which each is weighed at a moment of its own */
  constructor(startsAtBytes = 0, turns?: WeighingTurns) {
    this.startsAtBytes = startsAtBytes;
    this.#turns = turns;
  }

  /** True if nothing but digital silence came: what is detected then is a guess. */
  get isSilentSoFar(): boolean {
    return this.#isSilent;
  }

  /** True if what is detected of silence is a guess that might do harm. */
  get isOfEitherWidth(): boolean {
    const { message } = this.arrivals[0]!;
    const paced = pacedOf(this.arrivals) ?? this.arrivals;
    return isOfEitherWidth(message, bytesPerMsOf(paced));
  }

  /** Looks for structure in what came first: again when there is half as much again of it. */
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

  /** More than is weighed at most says nothing new, but for its pace. */
  #contentSoFar(): Content {
    const isWhole = (this.#content?.sound.length ?? 0) >= MAX_WEIGHED_BYTES;
    if (!this.#content || !isWhole) {
      this.#content = contentOf(soundOf(this.arrivals, this.startsAtBytes));
    }
    return this.#content;
  }

  /**
   * Takes one message.
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
    // Weighing is work: it is done again when there is half as much again to go by.
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
    // Repetitions tell little by their bytes: their pace must tell, which takes time.
    const isTelling = content.sound.length === 0 || content.isNovel;
    return isTelling && detection.confidence >= SURE ? detection : undefined;
  }
}

/** Time between two messages from which on a sender does not send all of its silence, ms. */
const PAUSE_MS = 150;

/** True for the first sound behind nothing but silence of which not all was sent, as with DTX: its pace tells nothing. */
export function endsSlowSilence(
  { arrivals, isSilentSoFar }: FormatDetector,
  message: Buffer,
  nowMs: number,
): boolean {
  if (arrivals.length === 0 || !isSilentSoFar || isDigitalSilence(message)) return false;
  return arrivals.some(({ atMs }, i) => (arrivals[i + 1]?.atMs ?? nowMs) - atMs > PAUSE_MS);
}

const ofStructure = (codec: RecognisedCodec): Detection => ({ format: { codec }, confidence: 1 });

/** Streams by which the code is compiled: some ms for each of the first that come, when nobody waits for them. */
const WARM_UP_STREAMS = 12;
const WARM_UP_MESSAGE_BYTES = 1920;

/** Finds out the format of made-up streams, so that the first client's messages wait for no compiler. */
export function warmUpDetection(): void {
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
