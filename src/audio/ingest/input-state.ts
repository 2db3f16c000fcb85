import type { Detection, FormatDetector } from './detection/detector.ts';
import type { FileCheck } from './detection/file-check.ts';
import type { FormatCheck } from './detection/format-check.ts';
import type { FormatGuard } from './detection/format-guard.ts';
import type { TimedMessage } from './detection/pace.ts';
import type { SilencePace } from './detection/silence.ts';
import { type InputFormat, isSamples } from '../format.ts';
import { bytesToNext, frameBytesOf } from '../samples.ts';
import { formatOfBeginning, recognise } from '../recognise.ts';
import type { Ingest } from './ingest.ts';
import { isFirstOggPage } from './ogg-reader.ts';
import type { OpaqueSink } from './opaque-ingest.ts';
import { mayBeChunk } from './wav-reader.ts';

export type AudioInputEvents = {
  /** Called when the format of an undeclared sender has been detected or has changed, or the format inside a file is known. */
  onDetected: (format: InputFormat) => void;
  /** Receives the messages of the client while its format is `opaque`. */
  onOpaque: OpaqueSink;
  /** Returns true while the client is muted. */
  isMuted?: () => boolean;
  /** Called when the bytes are not of the declared format. */
  onMismatch: (observed: Detection) => void;
  /** Called when the input cannot continue: the bytes do not decode, or a codec did not open. */
  onFault: (fault: unknown) => void;
};

/**
 * `detecting`: messages are held; `silent`: the format is guessed or unknown, because only digital silence came; `opening`: the format is
 * known, and messages are held for a moment; `open`: audio flows, and its format is checked at intervals; `doubting`: the format may have
 * changed, and messages are held until that is decided.
 */
export type InputState =
  | { name: 'detecting'; detector: FormatDetector }
  | { name: 'silent'; format: InputFormat | undefined; lastAtMs: number; pace: SilencePace }
  | OpeningState
  | OpenState
  | DoubtingState
  | { name: 'closed' };

export type OpeningState = {
  name: 'opening';
  format: InputFormat;
  held: TimedMessage[];
  /** Number of bytes before the held messages. */
  startsAtBytes: number;
};

export type OpenState = {
  name: 'open';
  format: InputFormat;
  ingest: Ingest;
  /** Maximum length of a message that is read at once, bytes; a longer one is read in pieces. Infinity for all but samples. */
  mostAtOnceBytes: number;
  check: FormatCheck;
  /** Guard that checks each message of an undeclared stream. */
  guard: FormatGuard | undefined;
  /** Messages of an undeclared file without sound so far. */
  unheard: Unheard | undefined;
  /** Check for a stream that follows an undeclared file. */
  file: FileCheck | undefined;
};

export type DoubtingState = {
  name: 'doubting';
  format: InputFormat;
  open: OpenState;
  detector: FormatDetector;
};

/** Message that waits for its turn. */
export type WaitingMessage = TimedMessage & {
  /** True for a message that was held until its format was known: it is not checked again. */
  isFormatKnown: boolean;
};

/** Duration of the samples in a piece of a long message, ms: encoding one takes about a millisecond. */
const PIECE_MS = 200;
/** Number of pieces that are read at once if they come in one message: friendly clients send up to 2 s at a time. */
const MOST_PIECES_AT_ONCE = 10;

/** Returns {@link OpenState.mostAtOnceBytes} of a format. */
export const mostAtOnceBytesOf = (format: InputFormat): number =>
  isSamples(format)
    ? MOST_PIECES_AT_ONCE * frameBytesOf(format) * Math.ceil((format.rateHz * PIECE_MS) / 1000)
    : Infinity;

/** Cuts a message that is too long to be read at once. */
export function piecesOf({ message, atMs }: TimedMessage, mostAtOnceBytes: number): TimedMessage[] {
  const pieceBytes = mostAtOnceBytes / MOST_PIECES_AT_ONCE;
  return Array.from({ length: Math.ceil(message.length / pieceBytes) }, (_, i) => ({
    message: message.subarray(i * pieceBytes, (i + 1) * pieceBytes),
    atMs,
  }));
}

/** Maximum bytes of a file that are kept until it has sound. */
const MAX_UNHEARD_BYTES = 1 << 20;

/** Messages of a file that may contain no decodable sound: in that case they are relayed. */
export class Unheard {
  readonly messages: TimedMessage[] = [];
  #bytes = 0;

  /** @returns false if the messages exceed 1 MiB, and need not be kept any more */
  keep(arrival: TimedMessage): boolean {
    this.messages.push(arrival);
    this.#bytes += arrival.message.length;
    return this.#bytes <= MAX_UNHEARD_BYTES;
  }
}

/**
 * Returns the sample format in which the reader will read this message, and the number of sample bytes before it; undefined if the
 * message may begin with a chunk header, or has no samples.
 */
export function readInFile(
  { ingest }: OpenState,
  message: Buffer,
): { format: InputFormat; startsAtBytes: number } | undefined {
  return mayBeChunk(message) ? undefined : ingest.samplesNext?.();
}

/** True for a message that begins a file of another format than the one that could not be read. */
export function beginsOther(message: Buffer, { format }: OpenState): boolean {
  const codec = recognise(message);
  return codec !== undefined && codec !== format.codec;
}

/** Returns the format of the file that a message begins, if its codec differs from that of the previous file; undefined otherwise. */
export function otherFileOf(message: Buffer, { format }: OpenState): InputFormat | undefined {
  const codec = isFirstOggPage(message) ? recognise(message) : formatOfBeginning(message);
  return codec && codec !== 'more' && codec !== format.codec ? { codec } : undefined;
}

/** Cuts held messages so that they begin with the first whole sample. */
export function wholeMessages(
  held: TimedMessage[],
  startsAtBytes: number,
  format: InputFormat,
): TimedMessage[] {
  const unitBytes = isSamples(format) ? frameBytesOf(format) : 1;
  let cutBytes = bytesToNext(unitBytes, startsAtBytes);
  return held
    .map(({ message, atMs }) => {
      const whole = message.subarray(cutBytes);
      cutBytes -= message.length - whole.length;
      return { message: whole, atMs };
    })
    .filter(({ message }) => message.length > 0);
}
