import { FRAME_MS } from './format.ts';

/** Delay beyond which missed ticks are skipped, ms: after a stall, catching up would only be a burst. */
const MAX_BEHIND_MS = 200;
/** Number of moments within the 20 ms over which the listeners are spread, so that each tick does a tenth of the work. */
const PHASES = 10;
const PHASE_MS = FRAME_MS / PHASES;
/** Number of phases after a wanted moment within which a listener is moved there. */
const MOST_LATER_PHASES = 3;
/** Tolerance, in phases, within which a phase counts as meeting a moment. */
const ROUNDING = 1e-6;

/** Number of listeners of a phase, and multiple of its share, beyond both of which a new listener goes to the next phase. */
const CROWD = 4;
const MOST_SHARES = 1.5;

/** Called with the due time of a tick and the present time, which is later if the process was busy. */
export type OnTick = (tickMs: number, nowMs: number) => void;

/** One drift-free 20 ms clock for all rooms; it runs only while it has listeners. */
export class FrameClock {
  readonly #onFault: (fault: unknown) => void;
  readonly #phases = Array.from({ length: PHASES }, () => new Set<OnTick>());
  /** Listeners with little to do, which are called with those of one phase: each moment at which the process wakes up costs CPU. */
  readonly #sharing = new Set<OnTick>();
  #sharedPhase = 0;
  /** Listeners whose next tick is skipped, because they were postponed. */
  readonly #postponed = new Set<OnTick>();
  /** Timer of the next tick; undefined during a tick, and without listeners. */
  #timer: NodeJS.Timeout | undefined;
  #due: NodeJS.Immediate | undefined;
  #isRunning = false;
  #isClosed = false;
  #nextMs = 0;
  #nextPhase = 0;

  /** @param onFault called with an exception of a listener; the listener receives its next tick, and all others this one */
  constructor(onFault: (fault: unknown) => void) {
    this.#onFault = onFault;
  }

  /**
   * Calls `onTick` every 20 ms until {@link remove}. Has no effect if `onTick` is listening already, unless by {@link share}.
   * @param dueMs a moment at or soon after which a tick is wanted, and any whole number of ticks before or after it
   */
  add(onTick: OnTick, dueMs?: number): void {
    if (this.#isClosed || this.isApart(onTick)) return;
    const isFirst = this.#isIdle;
    this.#sharing.delete(onTick);
    // A listener that is added during a tick must not move the clock.
    if (isFirst) this.#nextMs = this.#soonAfter(dueMs);
    const phase = this.#choose(dueMs);
    this.#phases[phase]!.add(onTick);
    if (this.#isRunning) return;
    if (isFirst) this.#arm();
    else this.#wakeFor(phase);
  }

  /**
   * Calls `onTick`, which has little to do, every 20 ms until {@link remove}, together with all others that share their moment.
   * Has no effect if it does so already.
   */
  share(onTick: OnTick): void {
    if (this.#isClosed || this.#sharing.has(onTick)) return;
    const isFirst = this.#isIdle;
    for (const phase of this.#phases) phase.delete(onTick);
    this.#postponed.delete(onTick);
    if (this.#sharing.size === 0) this.#sharedPhase = this.#fullest;
    this.#sharing.add(onTick);
    if (this.#isRunning) return;
    if (isFirst) {
      this.#nextMs = this.#soonAfter(undefined);
      this.#nextPhase = this.#sharedPhase;
      this.#arm();
    } else {
      this.#wakeFor(this.#sharedPhase);
    }
  }

  /** True if `onTick` listens at a moment of its own. */
  isApart(onTick: OnTick): boolean {
    return this.#phases.some((phase) => phase.has(onTick));
  }

  /**
   * Calls `onTick` at another moment of the 20 ms from now on, if it is listening. A listener that calls this in its own tick
   * loses no tick if the moment is less than 20 ms earlier.
   * @param dueMs as for {@link add}
   */
  move(onTick: OnTick, dueMs: number): void {
    if (this.#moveTo(onTick, dueMs)) this.#postponed.delete(onTick);
  }

  /**
   * Calls `onTick` at another moment of the 20 ms from now on, if it is listening. A listener that calls this in its own tick
   * gets its next tick 20 to 40 ms after this one.
   * @param dueMs as for {@link add}
   */
  postpone(onTick: OnTick, dueMs: number): void {
    if (this.#moveTo(onTick, dueMs)) this.#postponed.add(onTick);
  }

  /** Returns true if the listener has changed its phase; it stays where the phases at and soon after the moment are crowded. */
  #moveTo(onTick: OnTick, dueMs: number): boolean {
    const from = this.#phases.find((phase) => phase.has(onTick));
    const phase = this.#choose(dueMs, from);
    const to = this.#phases[phase]!;
    const laterMs = modulo(this.#momentOf(phase) - dueMs, FRAME_MS);
    // A listener that is added to the phase that ticks now would be called once more.
    if (!from || from === to || laterMs >= MOST_LATER_PHASES * PHASE_MS - ROUNDING) return false;
    from.delete(onTick);
    to.add(onTick);
    if (!this.#isRunning) this.#wakeFor(phase);
    return true;
  }

  remove(onTick: OnTick): void {
    for (const phase of this.#phases) phase.delete(onTick);
    this.#sharing.delete(onTick);
    this.#postponed.delete(onTick);
    if (this.#isIdle) this.#stop();
  }

  /** Removes all listeners for good: one that still waits for something would keep the process running. */
  close(): void {
    this.#isClosed = true;
    for (const phase of this.#phases) phase.clear();
    this.#sharing.clear();
    this.#postponed.clear();
    this.#stop();
  }

  #stop(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#due);
    this.#timer = undefined;
  }

  /** Returns the next moment at which a phase may begin, such that the next tick at `dueMs` modulo 20 ms is one. */
  #soonAfter(dueMs: number | undefined): number {
    const leastMs = performance.now();
    if (dueMs === undefined) return leastMs + PHASE_MS;
    return leastMs + modulo(dueMs - leastMs, PHASE_MS);
  }

  /**
   * Returns the phase with the fewest listeners, or the first phase at or after a moment that is not crowded.
   * @param from phase in which the listener is
   */
  #choose(dueMs: number | undefined, from?: ReadonlySet<unknown>): number {
    const sizes = this.#phases.map((phase) => phase.size - (phase === from ? 1 : 0));
    const least = sizes.indexOf(Math.min(...sizes));
    if (dueMs === undefined) return least;
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const most = Math.max(CROWD, Math.ceil((MOST_SHARES * total) / PHASES));
    const phasesLater = Math.ceil(modulo(dueMs - this.#nextMs, FRAME_MS) / PHASE_MS - ROUNDING);
    for (let i = 0; i < PHASES; i += 1) {
      const phase = (this.#nextPhase + phasesLater + i) % PHASES;
      if (sizes[phase]! < most) return phase;
    }
    return least;
  }

  /** Returns a moment at which a phase ticks, on the clock of `performance.now()`. */
  #momentOf(phase: number): number {
    return this.#nextMs + (phase - this.#nextPhase) * PHASE_MS;
  }

  /** Wakes up for a phase that had no listener when the timer was set; never later than the timer. */
  #wakeFor(phase: number): void {
    const phasesSooner = (this.#nextPhase - phase + PHASES) % PHASES;
    const atMs = this.#nextMs - phasesSooner * PHASE_MS;
    if (phasesSooner === 0 || atMs <= performance.now()) return;
    clearTimeout(this.#timer);
    clearImmediate(this.#due);
    this.#nextMs = atMs;
    this.#nextPhase = phase;
    this.#arm();
  }

  /** Sleeps until the next phase that has a listener. */
  #arm(): void {
    while (!this.#hasListeners(this.#nextPhase)) this.#step();
    this.#timer = setTimeout(
      () => {
        // Frames that have arrived are read first: after a stall all of them are there, and must
        // not be concealed.
        this.#due = setImmediate(() => this.#run());
      },
      // A timer counts whole milliseconds: one that is set for less than the rest wakes the process
      // up twice.
      Math.max(0, Math.ceil(this.#nextMs - performance.now())),
    );
  }

  #run(): void {
    this.#timer = undefined;
    const nowMs = performance.now();
    if (nowMs - this.#nextMs > MAX_BEHIND_MS) this.#nextMs = nowMs;
    this.#isRunning = true;
    while (this.#nextMs <= nowMs) {
      for (const onTick of this.#phases[this.#nextPhase]!) this.#call(onTick, nowMs);
      if (this.#nextPhase === this.#sharedPhase) {
        for (const onTick of this.#sharing) this.#call(onTick, nowMs);
      }
      this.#step();
    }
    this.#isRunning = false;
    if (!this.#isIdle) this.#arm();
  }

  #call(onTick: OnTick, nowMs: number): void {
    if (this.#postponed.delete(onTick)) return;
    try {
      onTick(this.#nextMs, nowMs);
    } catch (fault) {
      this.#onFault(fault);
    }
  }

  get #isIdle(): boolean {
    return this.#sharing.size === 0 && this.#phases.every((phase) => phase.size === 0);
  }

  #hasListeners(phase: number): boolean {
    return this.#phases[phase]!.size > 0 || (phase === this.#sharedPhase && this.#sharing.size > 0);
  }

  /** Phase with the most listeners. */
  get #fullest(): number {
    const sizes = this.#phases.map((phase) => phase.size);
    return sizes.indexOf(Math.max(...sizes));
  }

  #step(): void {
    this.#nextPhase = (this.#nextPhase + 1) % PHASES;
    this.#nextMs += PHASE_MS;
  }
}

const modulo = (value: number, by: number) => ((value % by) + by) % by;
