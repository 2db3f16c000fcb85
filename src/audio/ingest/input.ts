import type { Codecs } from '../codecs.ts';
import { counters } from '../../counters.ts';
import { PartylineError } from '../../protocol/errors.ts';
import { type Rate, TokenBucket } from '../../token-bucket.ts';
import {
  type Detection,
  endsSlowSilence,
  FormatDetector,
  WeighingTurns,
} from './detection/detector.ts';
import { FileCheck } from './detection/file-check.ts';
import { FormatCheck } from './detection/format-check.ts';
import { guardOf, guardOfFile } from './detection/guard-of.ts';
import { isOfOtherPace, PaceHistory } from './detection/pace-history.ts';
import { areAtPace, type TimedMessage } from './detection/pace.ts';
import { isDigitalSilence, SilencePace } from './detection/silence.ts';
import {
  type DeclaredFormat,
  formatAudioFormat,
  type InputFormat,
  isInputOnly,
  isSamples,
  type SampleFormat,
} from '../format.ts';
import { frameBytesOf } from '../samples.ts';
import { createIngest } from './create-ingest.ts';
import { EarlyMessages } from './early-messages.ts';
import { AT_ONCE, HeldAudio, type Turn } from './held-audio.ts';
import type { Ingest, OpusTarget, OpusSink } from './ingest.ts';
import {
  type AudioInputEvents,
  beginsOther,
  type DoubtingState,
  type InputState,
  mostAtOnceBytesOf,
  type OpeningState,
  type OpenState,
  otherFileOf,
  piecesOf,
  readInFile,
  Unheard,
  type WaitingMessage,
  wholeMessages,
} from './input-state.ts';
import type { LastPackets } from './splice.ts';
import { OpaqueIngest } from './opaque-ingest.ts';
import { CHANGES, StreamBudget, TOO_MANY_RECORDINGS } from './stream-budget.ts';

/**
 * Time after the last message of a client of unknown format during which it is sent no audio, ms. After it the client hears the room
 * again.
 */
const MAX_DOUBT_MS = 2000;
/**
 * Minimum gap between messages that counts as a pause of the sender, ms: longer than the gap between pieces of 2 s, even if one is late.
 * Messages held before a pause are too late to be played, and say nothing about the format after it.
 */
const LEAST_PAUSE_MS = 2500;

/** Number of held messages from which a guard learns at once, the last ones: a file without sound may have thousands. */
const MOST_LEARNT = 64;

/**
 * Maximum number of files per second, and at once, as which a stream of unknown format is read again: it may consist of files that cannot
 * be decoded, and is relayed.
 */
const FILES_OF_UNKNOWN: Rate = { perSecond: 1 / 60, burst: 3 };

/** Turns in which clients that connect at the same time are examined one after another. */
const turns = new WeighingTurns();

/** Minimum confidence of a change of the rate or number of channels. */
const SURE_OF_PACE = 0.9;

/**
 * True if a new detection differs from the previous format. A WAVE header states the rate, so for its samples only the codec is
 * compared.
 */
function isOther({ format, confidence }: Detection, before: InputFormat): boolean {
  if (before.codec === 'wav') return format.codec !== before.inside?.codec;
  if (format.codec !== before.codec) return true;
  return formatAudioFormat(format) !== formatAudioFormat(before) && confidence >= SURE_OF_PACE;
}

/** True for a message that follows a pause of its sender. */
function endsPause({ arrivals }: FormatDetector, nowMs: number): boolean {
  const last = arrivals.at(-1);
  return last !== undefined && nowMs - last.atMs >= LEAST_PAUSE_MS;
}

/** Input of one peer: converts binary messages of any format for its uplink. */
export class AudioInput {
  readonly #codecs: Codecs;
  readonly #target: OpusTarget;
  readonly #events: AudioInputEvents;
  readonly #isDeclared: boolean;
  /** Messages whose format is known, until their turn, and those that came behind them. */
  readonly #waiting: HeldAudio<WaitingMessage>;
  readonly #maxWaitingBytes: () => number;
  /** Arrival time of the last message that nobody may hear, ms; nobody may hear those before it either. */
  #skippedUntilMs = -Infinity;
  #state: InputState;
  /** Messages from before a pause, of an undeclared client whose format is not known yet. */
  readonly #early = new EarlyMessages();
  #receivedBytes = 0;
  /** Arrival time of the last message, ms. */
  #atMs = 0;
  readonly #paces = new PaceHistory();
  /** Budget of the changes from one undeclared file or stream to another, whether readable or not. */
  readonly #switchBudget: StreamBudget;
  /** Budget for files that begin in a stream of unknown format. */
  readonly #filesOfUnknown = new TokenBucket(FILES_OF_UNKNOWN, 0);

  /**
   * @param declared format that the client declares
   * @param before last packets that were handed on before this input takes over
   * @param assumed format of an undeclared client until its bytes contradict it
   * @param turn scheduler of the client's work among that of others
   * @param maxWaitingBytes maximum total size of the messages that wait for their turn, bytes; beyond it, the earliest are read at once
   */
  constructor(
    declared: DeclaredFormat,
    codecs: Codecs,
    target: OpusTarget,
    events: AudioInputEvents,
    before?: LastPackets,
    assumed?: InputFormat,
    turn: Turn = AT_ONCE,
    maxWaitingBytes: () => number = () => Infinity,
  ) {
    this.#codecs = codecs;
    this.#target = target;
    this.#events = events;
    const { onOver } = target.sound;
    this.#switchBudget = new StreamBudget(CHANGES, TOO_MANY_RECORDINGS, onOver);
    this.#maxWaitingBytes = maxWaitingBytes;
    this.#isDeclared = declared !== 'auto';
    this.#waiting = new HeldAudio(
      ({ message, atMs, isFormatKnown }) =>
        isFormatKnown ? this.#readHeld({ message, atMs }) : this.#read(message, atMs),
      turn,
    );
    this.#state = { name: 'detecting', detector: new FormatDetector(0, turns) };
    const format = declared === 'auto' ? assumed : declared;
    if (format) this.#open(format, [], 0, before);
  }

  /** Format that the client sends; undefined if unknown. */
  get format(): InputFormat | undefined {
    return 'format' in this.#state ? this.#state.format : undefined;
  }

  /**
   * True if the client's format is unknown and it has sent a message within {@link MAX_DOUBT_MS}: the format that it can play is then
   * unknown, too.
   * @param clock returns the time, ms; read only if it matters
   */
  isFormatUnknown(clock: () => number): boolean {
    const lastAtMs = this.#lastDoubtfulAtMs;
    return lastAtMs !== undefined && clock() - lastAtMs < MAX_DOUBT_MS;
  }

  get #lastDoubtfulAtMs(): number | undefined {
    const state = this.#state;
    if (state.name === 'detecting') return state.detector.arrivals.at(-1)?.atMs;
    return state.name === 'silent' && !state.format ? state.lastAtMs : undefined;
  }

  /**
   * Takes the messages whose format is not known yet, if a client that declares `format` has most likely sent them in it: all that may still be
   * relayed if it is `opaque`; whole samples that came at its pace. Otherwise they would be noise, and none are returned.
   */
  takeUnknown(format: InputFormat, nowMs: number): TimedMessage[] {
    if (this.#state.name !== 'detecting') return [];
    const { detector } = this.#state;
    const isOpaque = format.codec === 'opaque';
    if (!isOpaque && !(isSamples(format) && this.#mayBeSamples(format, detector))) return [];
    this.#state = { name: 'detecting', detector: new FormatDetector(this.#receivedBytes, turns) };
    const unknown = this.#inRoomOf(detector);
    if (!isOpaque) return unknown;
    const areEarly = endsPause(detector, nowMs);
    if (areEarly) this.#early.add(unknown, nowMs);
    return [...this.#takeEarly(nowMs), ...(areEarly ? [] : unknown)];
  }

  /** Returns the messages of a detection that were not skipped. */
  #inRoomOf({ arrivals }: FormatDetector): TimedMessage[] {
    return arrivals.filter(({ atMs }) => atMs > this.#skippedUntilMs);
  }

  /** Takes the messages from before a pause, to be relayed: none while the client is muted, because it may have sent them long before. */
  #takeEarly(nowMs: number): TimedMessage[] {
    if (this.#events.isMuted?.()) this.#early.drop();
    return this.#early.take(nowMs);
  }

  /** True if the messages of a detection are whole samples of a format, and came at its pace. */
  #mayBeSamples(format: SampleFormat, { arrivals, startsAtBytes }: FormatDetector): boolean {
    const frameBytes = frameBytesOf(format);
    const areWhole = startsAtBytes % frameBytes === 0 && this.#receivedBytes % frameBytes === 0;
    return areWhole && areAtPace(arrivals, (frameBytes * format.rateHz) / 1000);
  }

  /** Processes one message of at least one byte. */
  push(message: Buffer, nowMs: number): void {
    if (this.#waiting.isEmpty) this.#read(message, nowMs);
    else this.#readLater({ message, atMs: nowMs, isFormatKnown: false });
  }

  /** Holds a message behind those that wait. Messages that were held until their format was known may be longer than the limit, and keep their turns. */
  #readLater(message: WaitingMessage): void {
    const mostBytes = Math.max(this.#maxWaitingBytes(), this.#waiting.bytes);
    this.#waiting.hold(message);
    this.#waiting.flushDownTo(mostBytes);
  }

  /** Reads a message of at least one byte whose audio is dropped, because the client was in no room: later messages may depend on it. */
  skip(message: Buffer, nowMs: number): void {
    this.#skippedUntilMs = nowMs;
    this.#early.drop();
    this.push(message, nowMs);
  }

  /** Hands on at once what waits for its turn. */
  flush(): void {
    this.#waiting.flush();
  }

  #read(message: Buffer, nowMs: number): void {
    const state = this.#state;
    const startsAtBytes = this.#receivedBytes;
    this.#receivedBytes += message.length;
    this.#atMs = nowMs;
    switch (state.name) {
      case 'open':
        if (nowMs <= this.#skippedUntilMs) this.#skip(state, message, nowMs);
        // A declared stream is looked at only when its check is due.
        else if (state.file || state.guard || nowMs >= state.check.dueAtMs) {
          this.#look(state, message, nowMs, startsAtBytes);
        } else this.#ingest(state, message, nowMs);
        break;
      case 'doubting': {
        if (endsPause(state.detector, nowMs)) this.#skipHeld(state, startsAtBytes);
        if (this.#state === state) this.#weighAgain(state, message, nowMs);
        else this.#ingestHeld([{ message, atMs: nowMs }]);
        break;
      }
      case 'opening':
        state.held.push({ message, atMs: nowMs });
        break;
      case 'silent':
        // Silence need not be sent; the first sound shows whether the guess was right.
        state.lastAtMs = nowMs;
        if (nowMs <= this.#skippedUntilMs) break;
        if (isDigitalSilence(message)) {
          this.#guess(state, message, nowMs);
          break;
        }
        this.#detect(new FormatDetector(startsAtBytes, turns, true), message, nowMs);
        break;
      case 'detecting': {
        const { detector } = state;
        const hasPaused = endsPause(detector, nowMs);
        if (hasPaused) this.#early.add(this.#inRoomOf(detector), nowMs);
        const isAnew = hasPaused || endsSlowSilence(detector, message, nowMs);
        const next = isAnew ? new FormatDetector(startsAtBytes, turns, true) : detector;
        this.#detect(next, message, nowMs);
        break;
      }
      case 'closed':
        break;
    }
  }

  close(): void {
    this.#waiting.clear();
    this.#closeIngest();
    this.#early.drop();
    if (this.#state.name === 'detecting') {
      counters.dropped.late += this.#inRoomOf(this.#state.detector).length;
    }
    this.#state = { name: 'closed' };
  }

  #closeIngest(): void {
    if (this.#state.name === 'open') this.#state.ingest.close();
    if (this.#state.name === 'doubting') this.#state.open.ingest.close();
  }

  #detect(detector: FormatDetector, message: Buffer, nowMs: number): void {
    this.#state = { name: 'detecting', detector };
    const detection = detector.push(message, nowMs);
    if (!detection) return;
    if (!detector.isSilentSoFar) {
      this.#open(detection.format, detector.arrivals, detector.startsAtBytes);
    } else {
      const format = detector.isOfEitherWidth ? undefined : detection.format;
      const pace = new SilencePace(detector.arrivals);
      this.#early.drop();
      this.#state = { name: 'silent', format, lastAtMs: nowMs, pace };
    }
    if (this.format) this.#events.onDetected(this.format);
  }

  /** Improves the guess of the format of silence by its pace, which is measured more exactly over time. */
  #guess(state: InputState & { name: 'silent' }, message: Buffer, nowMs: number): void {
    const better = state.pace.push(message, nowMs, state.format);
    if (!better) return;
    state.format = better;
    this.#events.onDetected(better);
  }

  /** @param startsAtBytes number of bytes before the held messages */
  #open(
    format: InputFormat,
    held: TimedMessage[],
    startsAtBytes: number,
    before?: LastPackets,
  ): void {
    this.#closeIngest();
    // Counts anew, because bytes before the held messages may not be of this format.
    this.#receivedBytes = held.reduce((sum, { message }) => sum + message.length, startsAtBytes);
    const early = format.codec === 'opaque' ? this.#takeEarly(this.#atMs) : [];
    this.#early.drop();
    const opening: OpeningState = {
      name: 'opening',
      format,
      held: [...early, ...held],
      startsAtBytes,
    };
    this.#state = opening;
    this.#openIngest(opening, before).catch((fault: unknown) => {
      if (this.#state === opening) this.#events.onFault(fault);
    });
  }

  async #openIngest(opening: OpeningState, before?: LastPackets): Promise<void> {
    const { format, held, startsAtBytes } = opening;
    const isFile = !this.#isDeclared && isInputOnly(format.codec);
    const ingest: Ingest =
      format.codec === 'opaque'
        ? new OpaqueIngest(this.#events.onOpaque)
        : await createIngest(
            format,
            this.#codecs,
            isFile ? this.#targetOfFile((sound) => this.#passOn(ingest, sound)) : this.#target,
            {
              onFault: (fault) => this.#fail(ingest, fault),
              onInside: (inside) => this.#foundInside(ingest, inside),
              onFrame: () => this.#foundFrame(ingest),
            },
            before,
          );
    if (this.#state !== opening) {
      ingest.close();
      return;
    }
    const open: OpenState = {
      name: 'open',
      format,
      ingest,
      mostAtOnceBytes: mostAtOnceBytesOf(format),
      check: new FormatCheck(format, this.#isDeclared, turns),
      guard: this.#isDeclared ? undefined : guardOf(format, this.#paces),
      unheard: isFile ? new Unheard() : undefined,
      file: isFile ? new FileCheck(format, turns) : undefined,
    };
    this.#state = open;
    for (const { message, atMs } of held.slice(-MOST_LEARNT)) open.guard?.learn(message, atMs);
    this.#ingestHeld(wholeMessages(held, startsAtBytes, format));
  }

  #targetOfFile(hear: (sound: Parameters<OpusSink>) => void): OpusTarget {
    const target = this.#target;
    return {
      sink: (...sound) => hear(sound),
      sound: target.sound,
      ...(target.turn && { turn: target.turn }),
      get cutsMs() {
        return target.cutsMs;
      },
    };
  }

  /** Hands on messages that were held until their format was known, before those that wait, in the client's turns. */
  #ingestHeld(held: readonly TimedMessage[]): void {
    this.#waiting.holdFirst(held.map((each) => ({ ...each, isFormatKnown: true })));
    this.#waiting.drain();
  }

  #readHeld({ message, atMs }: TimedMessage): void {
    const state = this.#state;
    // An earlier message that could not be read may have opened another.
    if (state.name === 'opening') state.held.push({ message, atMs });
    else if (state.name === 'detecting') this.#detect(state.detector, message, atMs);
    else if (state.name === 'open') {
      if (atMs <= this.#skippedUntilMs) this.#skip(state, message, atMs);
      else this.#ingest(state, message, atMs);
    }
  }

  /** Handles a frame of a file: it may be decoded much later. */
  #foundFrame(ingest: Ingest): void {
    if (this.#state.name === 'open' && this.#state.ingest === ingest) this.#state.file?.reset();
  }

  #foundInside(ingest: Ingest, inside: SampleFormat): void {
    if (this.#state.name !== 'open' || this.#state.ingest !== ingest) return;
    this.#state.format = { codec: 'wav', inside };
    if (!this.#isDeclared) this.#state.guard = guardOfFile(inside);
    this.#events.onDetected(this.#state.format);
  }

  /** Checks a message of an open stream, and hands it on if it may be heard. */
  #look(open: OpenState, message: Buffer, atMs: number, startsAtBytes: number): void {
    const otherFile = this.#otherFileOf(open, message);
    if (otherFile && this.#spendSwitch()) {
      this.#open(otherFile, [{ message, atMs }], 0);
      this.#events.onDetected(otherFile);
      return;
    }
    if (open.file && this.#isFollowed(open, open.file, message, atMs)) return;
    const read = open.file ? readInFile(open, message) : { format: open.format, startsAtBytes };
    const look = read && open.guard?.look(message, read.startsAtBytes, atMs);
    if (read && look === 'wrong') {
      open.check.skip();
      // Another format is assumed to begin with this message, unless the message begins inside a
      // sample: then it continues the present format.
      const { format } = read;
      const isCut = isSamples(format) && read.startsAtBytes % frameBytesOf(format) !== 0;
      const beforeBytes = isCut ? read.startsAtBytes : 0;
      this.#receivedBytes = beforeBytes + message.length;
      const detector = new FormatDetector(beforeBytes, turns);
      const doubting: DoubtingState = { name: 'doubting', format: open.format, open, detector };
      this.#state = doubting;
      this.#weighAgain(doubting, message, atMs);
      return;
    }
    if (look === 'other_shape' && !open.file) open.check.lookSoon();
    if (look === 'other_content') open.check.lookAnew();
    const isDue = atMs >= open.check.dueAtMs;
    const found = typeof look === 'object' ? look : undefined;
    // Samples after an unknown format begin with this message: the earlier bytes must not shift
    // them.
    const isAnew = isDue && open.format.codec === 'opaque' && !open.check.isRunning;
    const beforeBytes = isAnew ? 0 : startsAtBytes;
    if (isAnew) this.#receivedBytes = message.length;
    const checked = isDue ? open.check.push(message, atMs, beforeBytes) : undefined;
    const contradiction =
      found ?? (checked && this.#isBorneOut(checked, open) ? checked : undefined);
    if (contradiction && this.#isDeclared) this.#events.onMismatch(contradiction);
    if (contradiction && !this.#isDeclared && this.#mayRead(open, contradiction.format)) {
      if (contradiction.format.codec === open.format.codec) this.#paces.addChange(atMs);
      this.#open(contradiction.format, [{ message, atMs }], beforeBytes);
      this.#events.onDetected(contradiction.format);
      return;
    }
    this.#ingest(open, message, atMs);
  }

  /** Returns the format of the file that a message begins, behind another undeclared file or an undeclared stream of unknown format. */
  #otherFileOf(open: OpenState, message: Buffer): InputFormat | undefined {
    if (!open.file && (this.#isDeclared || open.format.codec !== 'opaque')) return undefined;
    const file = otherFileOf(message, open);
    return file && this.#mayRead(open, file) ? file : undefined;
  }

  /** Returns false for a file in a stream of unknown format that has been read as files too often. */
  #mayRead({ format: before }: OpenState, format: InputFormat): boolean {
    if (before.codec !== 'opaque' || !isInputOnly(format.codec)) return true;
    if (this.#filesOfUnknown.balance(this.#atMs) < 1) return false;
    this.#filesOfUnknown.spend(1, this.#atMs);
    return true;
  }

  /**
   * True if a detection is acted on. In an undeclared stream a change of the pace alone is not: its guard measures the pace over a
   * longer time.
   */
  #isBorneOut({ format }: Detection, open: OpenState): boolean {
    return this.#isDeclared || !isOfOtherPace(format, open.format);
  }

  /** Opens the stream that follows a file, if a message belongs to one; returns true if the message needs no further handling. */
  #isFollowed(open: OpenState, file: FileCheck, message: Buffer, atMs: number): boolean {
    if (open.ingest.isInTag?.()) {
      file.reset();
      return false;
    }
    const following = file.push(message, atMs);
    if (!following || !this.#spendSwitch()) return this.#state !== open;
    const { format, arrivals } = following;
    this.#open(format, arrivals, 0);
    this.#events.onDetected(format);
    return true;
  }

  /** Spends one change from the budget. @returns false if there is none left, which has been reported to the client */
  #spendSwitch(): boolean {
    try {
      this.#switchBudget.spend(this.#atMs);
      return true;
    } catch (tooOften) {
      this.#events.onFault(tooOften);
      return false;
    }
  }

  /** Skips the messages that were held before a pause: they are too late to be played, but may end within a sample. */
  #skipHeld(doubting: DoubtingState, startsAtBytes: number): void {
    const { open, detector } = doubting;
    // A fault that the reader throws here is handled as one of the open stream, so the state is
    // `open` meanwhile.
    this.#state = open;
    for (const { message, atMs } of detector.arrivals) {
      if (this.#state === open) open.ingest.skip(message, atMs);
    }
    if (this.#state !== open) return;
    doubting.detector = new FormatDetector(startsAtBytes, turns);
    this.#state = doubting;
  }

  /** Holds a message until its format, and that of the later ones, is known. */
  #weighAgain(doubting: DoubtingState, message: Buffer, nowMs: number): void {
    const { open, detector } = doubting;
    const detection = detector.push(message, nowMs);
    if (!detection) return;
    const { arrivals, startsAtBytes, isSilentSoFar } = detector;
    if (!isSilentSoFar && isOther(detection, open.format)) {
      this.#open(detection.format, arrivals, startsAtBytes);
      this.#events.onDetected(detection.format);
      return;
    }
    if (!isSilentSoFar) open.guard?.reassure();
    this.#state = open;
    this.#ingestHeld(arrivals);
  }

  #skip(open: OpenState, message: Buffer, atMs: number): void {
    open.check.skip();
    open.file?.reset();
    open.ingest.skip(message, atMs);
  }

  #ingest(open: OpenState, message: Buffer, atMs: number): void {
    if (message.length > open.mostAtOnceBytes) {
      this.#ingestHeld(piecesOf({ message, atMs }, open.mostAtOnceBytes));
      return;
    }
    if (open.unheard && !open.unheard.keep({ message, atMs })) open.unheard = undefined;
    try {
      open.ingest.push(message, atMs);
    } catch (fault) {
      this.#fail(open.ingest, fault);
    }
    const hasFailed = this.#state !== open && this.#state.name === 'detecting';
    if (!hasFailed || !beginsOther(message, open)) return;
    this.#receivedBytes = message.length;
    this.#detect(new FormatDetector(0, turns), message, atMs);
  }

  /** Passes on a packet of an undeclared file. The file has sound, so its messages need not be kept for a relay any more. */
  #passOn(ingest: Ingest, sound: Parameters<OpusSink>): void {
    if (this.#state.name === 'open' && this.#state.ingest === ingest) {
      this.#state.unheard = undefined;
      this.#state.file?.reset();
    }
    this.#target.sink(...sound);
  }

  /** Handles bytes that cannot be decoded: in an undeclared stream they are of another format, or of an unknown one. */
  #fail(ingest: Ingest, fault: unknown): void {
    const state = this.#state;
    const isOpen = state.name === 'open' && state.ingest === ingest;
    const isUnreadable = fault instanceof PartylineError && fault.code === 'unsupported_audio';
    if (!isOpen || this.#isDeclared || !isUnreadable) {
      this.#events.onFault(fault);
      return;
    }
    if (!this.#spendSwitch()) return;
    if (state.unheard) {
      this.#open({ codec: 'opaque' }, state.unheard.messages, 0);
      this.#events.onDetected({ codec: 'opaque' });
    } else {
      ingest.close();
      // A stream of another format begins at a message boundary.
      this.#receivedBytes = 0;
      this.#state = { name: 'detecting', detector: new FormatDetector(0, turns) };
    }
  }
}
