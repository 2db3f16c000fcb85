import type { InputFormat, OutputFormat } from '../audio/format.ts';
import { counters } from '../counters.ts';
import { BoundedFifo } from '../message-fifo.ts';

/**
 * Kind of audio that a client is sent: sound of known formats, or relayed messages of unknown ones, never both.
 * `first`: whichever comes first. `held`: relayed messages wait until it is known what the client sends.
 */
export type Intake = 'sound' | 'relayed' | 'first' | 'held';

export type IntakeState = {
  /** Format that the client has asked for. */
  out: OutputFormat | undefined;
  /** Format that the client sends, declared or detected. */
  format: InputFormat | undefined;
  /** The client sends, and it is not known yet what. */
  isFormatUnknown: boolean;
  /** Neither the client nor its account has said anything of formats. */
  hasSaidNothing: boolean;
};

/** Sound or relayed messages: what came first to a client that had said nothing. */
export type FirstHeard = 'sound' | 'relayed';

/** Works out what a client is sent. Pure. */
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

/** Relayed messages that are held for a client of which it is not known yet what it sends. */
const HELD = { maxBytes: 1 << 20, maxAgeMs: 5000 };

/** Decides for one client between sound and relayed messages, and holds messages while that is open. */
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

  /** True if the client is sent no sound, also while this is not certain to last. */
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

  /** Sound is sent to the client: the hot path, runs for every frame. */
  soundSent(): void {
    this.#firstHeard ??= 'sound';
  }

  /**
   * Takes a message from another client.
   * @returns messages that are to be sent now, in order
   */
  take(message: Buffer, nowMs: number): Buffer[] {
    const { intake } = this;
    if (intake === 'sound') return this.settle(nowMs);
    this.#held.push(message, nowMs);
    this.#countDrops();
    return intake === 'held' ? [] : this.settle(nowMs);
  }

  /**
   * Takes notice that it has become known what the client sends, or that nobody waits for that any more.
   * @returns messages that were held and are to be sent now
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

  /** The client has left the room in which the messages that are held were sent, or has said anew what it sends or hears. */
  reset(): void {
    this.#held.clear();
    this.#firstHeard = undefined;
  }

  #countDrops(): void {
    counters.dropped.not_relayed += this.#held.takeDropped();
  }
}
