import type { MetricFamilies } from '../http/metrics.ts';

/** Asks the other gateway processes on the same port for their figures. */
export class OtherMetrics {
  readonly #others: number;
  readonly #ask: (question: number) => void;
  readonly #answerWithinMs: number;
  readonly #answered = new Map<number, (from: number, families: MetricFamilies) => void>();
  #questions = 0;

  /**
   * @param ask puts a question to the `others` (their number); their answers come to {@link receive}
   * @param answerWithinMs a process that has not answered by then hangs, or has only just been started
   */
  constructor(others: number, ask: (question: number) => void, answerWithinMs: number) {
    this.#others = others;
    this.#ask = ask;
    this.#answerWithinMs = answerWithinMs;
  }

  /** The figures of those that answer in time. */
  async read(): Promise<MetricFamilies[]> {
    this.#questions += 1;
    const question = this.#questions;
    // By who answered: an answer to one that had this number before it was started again may still come.
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

  /** Takes an answer of one of the others. */
  receive(from: number, question: number, families: MetricFamilies): void {
    this.#answered.get(question)?.(from, families);
  }
}
