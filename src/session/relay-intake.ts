import type { InputFormat, OutputFormat } from '../audio/format.ts';
import { counters } from '../counters.ts';
import { BoundedFifo } from '../message-fifo.ts';

/**
 * Kind of audio that a client is sent: sound, which is audio of known formats, or relayed messages of unknown formats, never both.
 * `first`: the one that will come first, and then only that. `held`: relayed messages wait until the client's own format is known.
 */
export type Intake = 'sound' | 'relayed' | 'first' | 'held';

export type IntakeState = {
  /** Format that the client has asked for. */
  outputFormat: OutputFormat | undefined;
  /** Format that the client sends, declared or detected. */
  inputFormat: InputFormat | undefined;
  /** True while the client sends in a format that is not known yet. */
  isFormatUnknown: boolean;
  /** True if neither the client nor its account has set a format, and the client has not asked to be forwarded packets. */
  hasSaidNothing: boolean;
};

/** Kind of audio that came first to a client without format settings. */
export type FirstHeard = 'sound' | 'relayed';

/** Determines the kind of audio that a client is sent. Pure. */
export function intakeOf(
  { outputFormat, inputFormat, isFormatUnknown, hasSaidNothing }: IntakeState,
  firstHeard: FirstHeard | undefined,
): Intake {
  const known = outputFormat ?? inputFormat;
  if (known) return known.codec === 'opaque' ? 'relayed' : 'sound';
  if (isFormatUnknown) return 'held';
  // A default format of the account, and `delivery=forward`, ask for sound.
  if (!hasSaidNothing) return 'sound';
  return firstHeard ?? 'first';
}

/** Limits of the messages that are held for a client whose own format is not known yet. */
const HELD = { maxBytes: 1 << 20, maxAgeMs: 5000 };

/** Decides for one client between sound and relayed messages, and holds messages while that is undecided. */
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

  /**
   * True while the client gets relayed messages only; may become false when its format is detected. While messages are held, true if
   * the client was sent relayed messages before.
   */
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

  /**
   * Notes that sound is sent to the client. Called for every frame of sound, so keep it cheap.
   * @returns true if it decided between sound and relayed messages
   */
  soundSent(): boolean {
    if (this.#firstHeard !== undefined) return false;
    const decides = this.intake === 'first';
    this.#firstHeard = 'sound';
    return decides;
  }

  /**
   * Takes a message of another client; drops it if the client is sent sound.
   * @returns messages to send now, in order
   */
  take(message: Buffer, nowMs: number): Buffer[] {
    if (this.intake !== 'sound') this.#held.push(message, nowMs);
    return this.settle(nowMs);
  }

  /** Returns the held messages that may be sent now, in order, and drops those that will not be. */
  settle(nowMs: number): Buffer[] {
    const due = this.#held.isEmpty ? [] : this.#takeDue(nowMs);
    counters.dropped.not_relayed += this.#held.takeDropped();
    return due;
  }

  /** Drops held messages, because the client has left their room or changed its formats. */
  reset(): void {
    this.#held.clear();
    this.#firstHeard = undefined;
  }

  #takeDue(nowMs: number): Buffer[] {
    switch (this.intake) {
      case 'sound':
        this.#held.clear();
        return [];
      case 'held':
        this.#held.expire(nowMs);
        return [];
      case 'first':
        this.#firstHeard = 'relayed';
        break;
      case 'relayed':
        break;
    }
    const due: Buffer[] = [];
    for (let next = this.#held.shift(nowMs); next; next = this.#held.shift(nowMs)) due.push(next);
    return due;
  }
}
