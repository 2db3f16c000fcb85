import type { InputFormat, OutputFormat } from '../audio/format.ts';
import { counters } from '../counters.ts';
import { BoundedFifo } from '../message-fifo.ts';

/**
 * Kind of audio that a client is sent: sound of known formats, or relayed messages of unknown ones, never both.
 * `first`: whichever comes first. `held`: relayed messages wait until the client's own format is known.
 */
export type Intake = 'sound' | 'relayed' | 'first' | 'held';

export type IntakeState = {
  /** Format that the client has asked for. */
  out: OutputFormat | undefined;
  /** Format that the client sends, declared or detected. */
  format: InputFormat | undefined;
  /** True while the client sends in a format that is not known yet. */
  isFormatUnknown: boolean;
  /** True if neither the client nor its account has set a format. */
  hasSaidNothing: boolean;
};

/** Kind of audio that came first to a client without format settings. */
export type FirstHeard = 'sound' | 'relayed';

/** Determines the kind of audio that a client is sent. Pure. */
export function intakeOf(
  { out, format, isFormatUnknown, hasSaidNothing }: IntakeState,
  firstHeard: FirstHeard | undefined,
): Intake {
  const said = out ?? format;
  if (said) return said.codec === 'opaque' ? 'relayed' : 'sound';
  if (isFormatUnknown) return 'held';
  if (!hasSaidNothing) return 'sound';
  return firstHeard ?? 'first';
}

/** Relayed messages that are held for a client whose own format is not known yet. */
const HELD = { maxBytes: 1 << 20, maxAgeMs: 5000 };

/** Decides for one client between decoded audio and relayed messages, and holds messages while that is undecided. */
export class RelayIntake {
  readonly #state: () => IntakeState;
  readonly #held = new BoundedFifo(HELD);
  #firstHeard: FirstHeard | undefined;

  constructor(state: () => IntakeState, firstHeard: FirstHeard | undefined) {
    this.#state = state;
    this.#firstHeard = firstHeard;
  }

  get intake(): Intake {
    return intakeOf(this.#state(), this.#firstHeard);
  }

  /** True while the client gets relayed messages only; may become false when its format is detected. */
  get isRelayed(): boolean {
    const { intake } = this;
    return intake === 'relayed' || (intake === 'held' && this.#firstHeard === 'relayed');
  }

  /** True while messages are held. */
  get holds(): boolean {
    return !this.#held.isEmpty;
  }

  get firstHeard(): FirstHeard | undefined {
    return this.#firstHeard;
  }

  /** Notes that audio is sent to the client. The hot path: runs for every frame. */
  soundSent(): void {
    this.#firstHeard ??= 'sound';
  }

  /**
   * Takes a message from another client.
   * @returns messages to send now, in order
   */
  take(message: Buffer, nowMs: number): Buffer[] {
    const { intake } = this;
    if (intake === 'sound') return this.settle(nowMs);
    this.#held.push(message, nowMs);
    this.#countDrops();
    return intake === 'held' ? [] : this.settle(nowMs);
  }

  /**
   * Notes that the client's own format has become known, or is no longer awaited.
   * @returns held messages to send now
   */
  settle(nowMs: number): Buffer[] {
    const due: Buffer[] = [];
    if (this.#held.isEmpty) return due;
    const { intake } = this;
    if (intake === 'sound') this.#held.clear();
    if (intake === 'held') this.#held.expire(nowMs);
    if (intake === 'first') this.#firstHeard = 'relayed';
    this.#countDrops();
    if (intake === 'sound' || intake === 'held') return due;
    for (let next = this.#held.shift(nowMs); next; next = this.#held.shift(nowMs)) due.push(next);
    this.#countDrops();
    return due;
  }

  /** Drops held messages, because the client has left their room or changed its formats. */
  reset(): void {
    this.#held.clear();
    this.#firstHeard = undefined;
  }

  #countDrops(): void {
    counters.dropped.not_relayed += this.#held.takeDropped();
  }
}
