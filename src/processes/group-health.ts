import type { ToldStates } from './process-states.ts';

/**
 * Heartbeats of this process without a message of the supervisor after which the supervisor hangs. Heartbeats
 * are counted instead of milliseconds, so that a stall of this process does not look like one of the
 * supervisor.
 */
const MAX_SILENT_BEATS = 10;

/** Health of a group's processes, as one of its gateways knows it. */
export class GroupHealth {
  #told: Pick<ToldStates, 'hung' | 'deaths'> = { hung: [], deaths: 0 };
  #silentBeats = 0;

  /** Notes a message of the supervisor. */
  heard(told: Pick<ToldStates, 'hung' | 'deaths'>): void {
    this.#silentBeats = 0;
    this.#told = told;
  }

  /** Counts a heartbeat; to be called at the interval of the supervisor's messages. */
  beat(): void {
    this.#silentBeats += 1;
  }

  /** Names of the processes that hang. */
  get hung(): string[] {
    const { hung } = this.#told;
    return this.#silentBeats > MAX_SILENT_BEATS ? [...hung, 'supervisor'] : hung;
  }

  /** Number of gateway processes that died, or hung and were killed, since the group was started. */
  get deaths(): number {
    return this.#told.deaths;
  }
}
