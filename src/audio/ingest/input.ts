import type { Codecs } from '../codecs.ts';
import { type Detection, FormatDetector, WeighingTurns } from './detection/detector.ts';
import { FormatCheck } from './detection/format-check.ts';
import type { TimedMessage } from './detection/pace.ts';
import { isDigitalSilence, SilencePace } from './detection/silence.ts';
import { type DeclaredFormat, type InputFormat, isSamples, type SampleFormat } from '../format.ts';
import { bytesToNext, frameBytesOf } from '../samples.ts';
import { createIngest } from './create-ingest.ts';
import type { Ingest, OpusSink } from './ingest.ts';
import type { LastPackets } from './joint.ts';
import { OpaqueIngest, type OpaqueSink } from './opaque-ingest.ts';

export type AudioInputEvents = {
  /** What an undeclared sender sends has been found out, or has changed; or what is in a file. */
  onDetected: (format: InputFormat) => void;
  /** Takes what the client sends while its format is `opaque`. */
  onOpaque: OpaqueSink;
  /** The bytes are not what the client says that they are. */
  onMismatch: (observed: Detection) => void;
  /** The input cannot go on: the bytes do not decode, or a codec did not open. */
  onFault: (fault: unknown) => void;
};

/** Who falls silent for so long before it is known what he sends is not waited for: he hears the room again. */
const MAX_DOUBT_MS = 2000;

/**
 * `detecting`: what comes is held; `silent`: a guess, or not even that, because nothing but digital silence came; `opening`: the format is
 * known, and what comes is held for a moment; `open`: it flows, and is looked at again now and then.
 */
type State =
  | { name: 'detecting'; detector: FormatDetector }
  | { name: 'silent'; format: InputFormat | undefined; lastAtMs: number; pace: SilencePace }
  | { name: 'opening'; format: InputFormat; held: TimedMessage[]; startsAtBytes: number }
  | OpenState
  | { name: 'closed' };
type OpenState = { name: 'open'; format: InputFormat; ingest: Ingest; check: FormatCheck };

/** Clients that come at the same moment are looked at one after another. */
const turns = new WeighingTurns();

/** One peer's binary messages, whatever they are, on their way to its uplink. */
export class AudioInput {
  readonly #codecs: Codecs;
  readonly #sink: OpusSink;
  readonly #events: AudioInputEvents;
  readonly #isDeclared: boolean;
  #state: State;
  #receivedBytes = 0;

  /**
   * @param declared what the client says that it sends
   * @param before what was handed on before this input takes over
   * @param assumed what an undeclared client is taken to send until its bytes say otherwise
   */
  constructor(
    declared: DeclaredFormat,
    codecs: Codecs,
    sink: OpusSink,
    events: AudioInputEvents,
    before?: LastPackets,
    assumed?: InputFormat,
  ) {
    this.#codecs = codecs;
    this.#sink = sink;
    this.#events = events;
    this.#isDeclared = declared !== 'auto';
    this.#state = { name: 'detecting', detector: new FormatDetector(0, turns) };
    const format = declared === 'auto' ? assumed : declared;
    if (format) this.#open(format, [], 0, before);
  }

  /** What the client sends, as far as is known. */
  get format(): InputFormat | undefined {
    return 'format' in this.#state ? this.#state.format : undefined;
  }

  /** True while a client sends what nobody can tell yet, nor so what it understands. */
  isInDoubt(nowMs: number): boolean {
    const lastAtMs = this.#lastDoubtfulAtMs;
    return lastAtMs !== undefined && nowMs - lastAtMs < MAX_DOUBT_MS;
  }

  get #lastDoubtfulAtMs(): number | undefined {
    const state = this.#state;
    if (state.name === 'detecting') return state.detector.arrivals.at(-1)?.atMs;
    return state.name === 'silent' && !state.format ? state.lastAtMs : undefined;
  }

  /** Takes one message of at least one byte. */
  push(message: Buffer, nowMs: number): void {
    const state = this.#state;
    const startsAtBytes = this.#receivedBytes;
    this.#receivedBytes += message.length;
    switch (state.name) {
      case 'open':
        this.#ingest(state, message, nowMs, startsAtBytes);
        break;
      case 'opening':
        state.held.push({ message, atMs: nowMs });
        break;
      case 'silent':
        // Silence needs no sending; the first sound shows whether the guess was right.
        state.lastAtMs = nowMs;
        if (isDigitalSilence(message)) {
          this.#guess(state, message, nowMs);
          break;
        }
        this.#detect(new FormatDetector(startsAtBytes, turns), message, nowMs);
        break;
      case 'detecting': {
        // What came before a pause tells nothing of the pace of what comes after it.
        const hasPaused = !this.isInDoubt(nowMs);
        this.#detect(
          hasPaused ? new FormatDetector(startsAtBytes, turns) : state.detector,
          message,
          nowMs,
        );
        break;
      }
      case 'closed':
        break;
    }
  }

  /** Takes one message of at least one byte that nobody is to hear. */
  skip(message: Buffer, nowMs: number): void {
    const state = this.#state;
    if (state.name !== 'open' && state.name !== 'silent') {
      this.push(message, nowMs);
      return;
    }
    this.#receivedBytes += message.length;
    if (state.name === 'silent') {
      state.lastAtMs = nowMs;
      return;
    }
    state.check.skip();
    state.ingest.skip(message, nowMs);
  }

  close(): void {
    if (this.#state.name === 'open') this.#state.ingest.close();
    this.#state = { name: 'closed' };
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
      this.#state = { name: 'silent', format, lastAtMs: nowMs, pace };
    }
    if (this.format) this.#events.onDetected(this.format);
  }

  /** While nothing but silence comes, its pace tells more and more of what it is. */
  #guess(state: State & { name: 'silent' }, message: Buffer, nowMs: number): void {
    const better = state.pace.push(message, nowMs, state.format);
    if (!better) return;
    state.format = better;
    this.#events.onDetected(better);
  }

  /** @param startsAtBytes so much came before what is held */
  #open(
    format: InputFormat,
    held: TimedMessage[],
    startsAtBytes: number,
    before?: LastPackets,
  ): void {
    if (this.#state.name === 'open') this.#state.ingest.close();
    const opening: State = { name: 'opening', format, held, startsAtBytes };
    this.#state = opening;
    this.#openIngest(opening, before).catch((fault: unknown) => {
      if (this.#state === opening) this.#events.onFault(fault);
    });
  }

  async #openIngest(opening: State & { name: 'opening' }, before?: LastPackets): Promise<void> {
    const { format, held, startsAtBytes } = opening;
    const { onFault, onOpaque } = this.#events;
    const onInside = (inside: SampleFormat) => this.#foundInside(ingest, inside);
    const ingest: Ingest =
      format.codec === 'opaque'
        ? new OpaqueIngest(onOpaque)
        : await createIngest(format, this.#codecs, this.#sink, { onFault, onInside }, before);
    if (this.#state !== opening) {
      ingest.close();
      return;
    }
    const open: OpenState = { name: 'open', format, ingest, check: new FormatCheck(format) };
    this.#state = open;
    // What is held may begin in the middle of a sample.
    const unitBytes = isSamples(format) ? frameBytesOf(format) : 1;
    const wholeFromBytes = startsAtBytes + bytesToNext(unitBytes, startsAtBytes);
    let at = startsAtBytes;
    for (const { message, atMs } of held) {
      const whole = message.subarray(Math.max(0, wholeFromBytes - at));
      at += message.length;
      if (this.#state === open) this.#ingest(open, whole, atMs, at - whole.length);
    }
  }

  #foundInside(ingest: Ingest, inside: SampleFormat): void {
    if (this.#state.name !== 'open' || this.#state.ingest !== ingest) return;
    this.#state.format = { codec: 'wav', inside };
    this.#events.onDetected(this.#state.format);
  }

  #ingest(open: OpenState, message: Buffer, atMs: number, startsAtBytes: number): void {
    if (message.length === 0) return;
    const contradiction = open.check.push(message, atMs, startsAtBytes);
    if (contradiction && this.#isDeclared) this.#events.onMismatch(contradiction);
    if (contradiction && !this.#isDeclared) {
      this.#open(contradiction.format, [{ message, atMs }], startsAtBytes);
      this.#events.onDetected(contradiction.format);
      return;
    }
    try {
      open.ingest.push(message, atMs);
    } catch (fault) {
      this.#events.onFault(fault);
    }
  }
}
