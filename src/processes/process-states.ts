/** States of all gateway processes, as the supervisor reports them to each. */
export type ToldStates = {
  /** Processes that admit clients. */
  open: number[];
  /** Names of those that have not been heard for a while. */
  hung: string[];
  /** Number of times that one of them died, or hung and was killed. */
  deaths: number;
};

const sorted = (indexes: Set<number>) => [...indexes].toSorted((a, b) => a - b);

/** States of the gateway processes, known from their messages and their silence. */
export class ProcessStates {
  readonly #open = new Set<number>();
  readonly #hung = new Set<number>();
  readonly #onChange: (told: ToldStates) => void;
  #deaths = 0;

  constructor(onChange: (told: ToldStates) => void) {
    this.#onChange = onChange;
  }

  get told(): ToldStates {
    const hung = sorted(this.#hung).map(nameOfGateway);
    return { open: sorted(this.#open), hung, deaths: this.#deaths };
  }

  /** Notes that a process has reported that it runs. */
  alive(index: number, takesClients: boolean): void {
    const isNews = takesClients !== this.#open.has(index) || this.#hung.has(index);
    this.#hung.delete(index);
    if (takesClients) this.#open.add(index);
    else this.#open.delete(index);
    if (isNews) this.#onChange(this.told);
  }

  /** Notes that a process has been silent for a while. */
  silent(index: number): void {
    this.#open.delete(index);
    this.#hung.add(index);
    this.#onChange(this.told);
  }

  /**
   * Notes that a process ended without the supervisor's request.
   * @param isWell true if it exited with code 0, as after a signal of the operator
   */
  ended(index: number, isWell: boolean): void {
    this.#open.delete(index);
    this.#hung.delete(index);
    if (!isWell) this.#deaths += 1;
    this.#onChange(this.told);
  }
}

/** The name of a gateway process in log lines, metrics and health checks. */
export const nameOfGateway = (index: number | string) => `gateway ${index}`;
