import type { Detection, FormatDetector } from './detection/detector.ts';
import type { FileCheck } from './detection/file-check.ts';
import type { FormatCheck } from './detection/format-check.ts';
import type { FormatGuard } from './detection/format-guard.ts';
import type { TimedMessage } from './detection/pace.ts';
import type { SilencePace } from './detection/silence.ts';
import { type InputFormat, isSamples } from '../format.ts';
import { bytesToNext, frameBytesOf } from '../samples.ts';
import { recognise } from '../recognise.ts';
import type { Ingest } from './ingest.ts';
import { isFirstOggPage } from './ogg-reader.ts';
import type { OpaqueSink } from './opaque-ingest.ts';
import { mayBeChunk } from './wav-reader.ts';

export type AudioInputEvents = {
  /** The format of an undeclared sender has been found out or has changed, or a file has told what is in it. */
  onDetected: (format: InputFormat) => void;
  /** Takes what the client sends while its format is `opaque`. */
  onOpaque: OpaqueSink;
  /** The bytes are not what the client says that they are. */
  onMismatch: (observed: Detection) => void;
  /** The input cannot go on: the bytes do not decode, or a codec did not open. */
  onFault: (fault: unknown) => void;
};

/**
 * `detecting`: what comes is held; `silent`: a guess, or not even that, because nothing but digital silence came; `opening`: the format is
 * known, and what comes is held for a moment; `open`: it flows, and is looked at again now and then; `doubting`: the format may have changed,
 * and messages are held until that is decided.
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
  /** Bytes that came before what is held. */
  startsAtBytes: number;
};

export type OpenState = {
  name: 'open';
  format: InputFormat;
  ingest: Ingest;
  check: FormatCheck;
  /** Looks at each message of an undeclared stream. */
  guard: FormatGuard | undefined;
  /** Messages of an undeclared file in which no sound was found yet. */
  unheard: Unheard | undefined;
  /** Looks for what follows an undeclared file. */
  file: FileCheck | undefined;
};

export type DoubtingState = {
  name: 'doubting';
  format: InputFormat;
  open: OpenState;
  detector: FormatDetector;
};

/** Bytes of a file that are kept until there is sound in it. */
const MAX_UNHEARD_BYTES = 1 << 20;

/** The messages of a file that may hold nothing that is decoded: they are relayed then. */
export class Unheard {
  readonly messages: TimedMessage[] = [];
  #bytes = 0;

  /** @returns false if the messages have become too many to be kept */
  keep(arrival: TimedMessage): boolean {
    this.messages.push(arrival);
    this.#bytes += arrival.message.length;
    return this.#bytes <= MAX_UNHEARD_BYTES;
  }
}

/** Returns what a message of a file is read as, and how many bytes of that came before it; undefined where the reader of the file knows better. */
export function readInFile(
  { ingest }: OpenState,
  message: Buffer,
): { format: InputFormat; startsAtBytes: number } | undefined {
  return mayBeChunk(message) ? undefined : ingest.samplesNext?.();
}

/** True for a message that begins a file of another format than the one that could not be read any further. */
export function beginsOther(message: Buffer, { format }: OpenState): boolean {
  const codec = recognise(message);
  return codec !== undefined && codec !== format.codec;
}

/** Returns the format of the Ogg file that a message begins, if its codec is another than that of the file before it; undefined otherwise. */
export function otherOggOf(message: Buffer, { format }: OpenState): InputFormat | undefined {
  const codec = isFirstOggPage(message) ? recognise(message) : undefined;
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
