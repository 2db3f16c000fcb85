import { type LoopTime, loopTime } from './loop-time.ts';

/**
 * Maximum length of one slice, ms: well below the 20 ms of a frame. Shorter while other users of the event
 * loop's shared time ({@link LoopTime}) are busy.
 */
const SLICE_MS = 3;
/** Number of asynchronous tasks of one owner under way at once; the tasks of other owners do not wait for them. */
const MAX_UNDER_WAY = 16;

/** An object, or the name of one. */
type Owner = object | string;

type Task = () => void | Promise<void>;

/** Tasks of one owner that have not begun, and the number of those that have not ended. */
type Line = { tasks: Task[]; underWay: number; hasTurn: boolean };

/**
 * Work that grows with a room and may wait a moment, such as announcing 400 peers to 400 others. It is done in slices of a few
 * milliseconds, in turn between its owners, with a turn of the event loop between two slices, so that audio comes first.
 */
export class Slices {
  readonly #lines = new Map<Owner, Line>();
  /** Lines with a task that may begin, in the order of their turns. */
  #turns: { owner: Owner; line: Line }[] = [];
  readonly #onFault: (fault: unknown) => void;
  readonly #now: () => number;
  readonly #time: LoopTime;
  #isScheduled = false;

  /**
   * @param onFault called with the error of a task that throws
   * @param now a monotonic clock, ms
   * @param time shared with others that work in slices
   */
  constructor(onFault: (fault: unknown) => void, now = () => performance.now(), time = loopTime) {
    this.#onFault = onFault;
    this.#now = now;
    this.#time = time;
  }

  /** Adds a task; tasks of one owner begin in the order in which they were added. */
  add(owner: Owner, task: Task): void {
    const line = this.#lines.get(owner) ?? { tasks: [], underWay: 0, hasTurn: false };
    this.#lines.set(owner, line);
    line.tasks.push(task);
    this.#giveTurn(owner, line);
  }

  #giveTurn(owner: Owner, line: Line): void {
    if (line.hasTurn || line.underWay >= MAX_UNDER_WAY) return;
    if (line.tasks.length === 0) {
      if (line.underWay === 0) this.#lines.delete(owner);
      return;
    }
    line.hasTurn = true;
    this.#turns.push({ owner, line });
    this.#schedule();
  }

  #schedule(): void {
    const isBusy = this.#turns.length > 0;
    this.#time.note(this, isBusy);
    if (this.#isScheduled || !isBusy) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#runSlice();
      this.#schedule();
    });
  }

  #runSlice(): void {
    const endsAtMs = this.#now() + Math.min(SLICE_MS, this.#time.shareMs(this));
    do {
      const turn = this.#turns.shift();
      if (!turn) return;
      const { owner, line } = turn;
      line.hasTurn = false;
      const task = line.tasks.shift();
      if (task) this.#run(owner, line, task);
      this.#giveTurn(owner, line);
    } while (this.#now() < endsAtMs);
  }

  #run(owner: Owner, line: Line, task: Task): void {
    try {
      const done = task();
      if (!done) return;
      line.underWay += 1;
      void done.catch(this.#onFault).finally(() => {
        line.underWay -= 1;
        this.#giveTurn(owner, line);
      });
    } catch (fault) {
      this.#onFault(fault);
    }
  }
}
