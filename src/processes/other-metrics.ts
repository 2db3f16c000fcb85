import type { MetricFamilies } from '../http/metrics.ts';

/** Collects the metrics of the other gateway processes on the same port. */
export class OtherMetrics {
  readonly #others: number;
  readonly #ask: (question: number) => void;
  readonly #answerWithinMs: number;
  readonly #answered = new Map<number, (from: number, families: MetricFamilies) => void>();
  #questions = 0;

  /**
   * @param ask sends a request to the `others` (their number); their answers come to {@link receive}
   * @param answerWithinMs a process that has not answered by then hangs, or has only just been started
   */
  constructor(others: number, ask: (question: number) => void, answerWithinMs: number) {
    this.#others = others;
    this.#ask = ask;
    this.#answerWithinMs = answerWithinMs;
  }

  /** Returns the metrics of the processes that answer in time. */
  async read(): Promise<MetricFamilies[]> {
    this.#questions += 1;
    const question = this.#questions;
    // By sender: an answer to a former process of this number may still arrive.
    const answers = new Map<number, MetricFamilies>();
    const { promise: isComplete, resolve } = Promise.withResolvers<void>();
    this.#answered.set(question, (from, families) => {
      answers.set(from, families);
      if (answers.size === this.#others) resolve();
    });
    const timer = setTimeout(resolve, this.#answerWithinMs);
    this.#ask(question);
    await isComplete;
    clearTimeout(timer);
    this.#answered.delete(question);
    return [...answers.values()];
  }

  /** Receives an answer of another process. */
  receive(from: number, question: number, families: MetricFamilies): void {
    this.#answered.get(question)?.(from, families);
  }
}
