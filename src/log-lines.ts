import { counters } from './counters.ts';
import { noteShortage } from './resources.ts';

/** Bytes that are kept while they cannot be written. */
const MAX_HELD_BYTES = 256 * 1024;
/** Delay before held lines are retried, if no further line comes, ms. */
const RETRY_MS = 500;

/** Writes bytes and returns how many it has written. @throws {Error} if it can write none */
type Write = (bytes: Buffer) => number;

/**
 * Writer of log lines, one by one. A full disk or a stopped reader makes no call fail: lines are held
 * until they can be written, up to a bound, and those beyond it are counted.
 */
export class LogLines {
  readonly #write: Write;
  #held: Buffer[] = [];
  #heldBytes = 0;
  #lost = 0;
  /** Set while lines are held; for that time the process's `exit` event also writes them. */
  #retry: NodeJS.Timeout | undefined;

  constructor(write: Write) {
    this.#write = write;
  }

  /** Takes one line, with its end. */
  write(line: string): void {
    const bytes = Buffer.from(line);
    if (this.#heldBytes > 0) this.#flush();
    if (this.#heldBytes + bytes.length > MAX_HELD_BYTES) {
      this.#lost += 1;
      counters.logLinesLost += 1;
      return;
    }
    this.#held.push(bytes);
    this.#heldBytes += bytes.length;
    this.#flush();
  }

  /** Writes what is held, as far as that is possible. */
  readonly #flush = (): void => {
    try {
      while (this.#held.length > 0) this.#writeFirst();
    } catch (fault) {
      noteShortage(fault);
      this.#retryLater();
      return;
    }
    this.#endRetries();
    if (this.#lost === 0) return;
    const lines = this.#lost;
    this.#lost = 0;
    // Severity 40 is `warn` (pino).
    const word = { level: 40, time: Date.now(), lines, msg: 'log lines were lost' };
    this.write(`${JSON.stringify(word)}\n`);
  };

  #retryLater(): void {
    if (this.#retry) {
      this.#retry.refresh();
      return;
    }
    // The timer does not keep the process alive; lines are tried once more at exit.
    this.#retry = setTimeout(this.#flush, RETRY_MS).unref();
    process.on('exit', this.#flush);
  }

  #endRetries(): void {
    if (!this.#retry) return;
    clearTimeout(this.#retry);
    this.#retry = undefined;
    process.removeListener('exit', this.#flush);
  }

  #writeFirst(): void {
    const [first] = this.#held;
    const written = this.#write(first!);
    this.#heldBytes -= written;
    if (written === first!.length) this.#held.shift();
    else this.#held[0] = first!.subarray(written);
  }
}
