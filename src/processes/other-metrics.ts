import type { MetricFamilies } from '../app.ts';

/** Who has not answered by then hangs, or has only just been started; a scrape may take 10 s. */
const ANSWER_WITHIN_MS = 2000;

/** Asks the other gateway processes on the same port for their figures. */
export class OtherMetrics {
  readonly #others: number;
  readonly #ask: (question: number) => void;
  readonly #answered = new Map<number, (from: number, families: MetricFamilies) => void>();
  #questions = 0;

  /** @param ask puts a question to the `others`, so many as they are; their answers come to {@link receive} */
  constructor(others: number, ask: (question: number) => void) {
    this.#others = others;
    this.#ask = ask;
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
    const timer = setTimeout(resolve, ANSWER_WITHIN_MS);
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
