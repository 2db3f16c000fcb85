import { readdirSync, statSync } from 'node:fs';
import { readdir } from 'node:fs/promises';

const folderOf = (process: number | 'self') => `/proc/${process}/fd`;

/** True if the kernel tells the number of open descriptors as the size of their folder, as it does from 6.2 on. */
const isNumberTold = () => statSync(folderOf('self')).size > 0;

/**
 * Counts the open descriptors of processes, also when this one has none left. Kernels that do not tell the number have the folder
 * read, which takes milliseconds where thousands are open: in the background, so that a count is that of the call before.
 */
export class DescriptorCounter {
  readonly #isNumberTold: boolean;
  /** Last counts by process, where the kernel does not tell them. */
  readonly #counted = new Map<number | 'self', number>();

  /** @param numberTold overrides the detection of the kernel's behaviour */
  constructor(numberTold = isNumberTold()) {
    this.#isNumberTold = numberTold;
  }

  /** @returns undefined if they cannot be counted: the process has ended, or this one has no descriptor left to read with */
  count(process: number | 'self'): number | undefined {
    try {
      if (this.#isNumberTold) return statSync(folderOf(process)).size;
      const before = this.#counted.get(process);
      if (before === undefined) return this.#keep(process, readdirSync(folderOf(process)).length);
      void this.#countLater(process);
      return before;
    } catch {
      this.#counted.delete(process);
      return undefined;
    }
  }

  async #countLater(process: number | 'self'): Promise<void> {
    try {
      this.#keep(process, (await readdir(folderOf(process))).length);
    } catch {
      // The next count is a direct one, and says why.
      this.#counted.delete(process);
    }
  }

  #keep(process: number | 'self', count: number): number {
    this.#counted.set(process, count);
    return count;
  }
}
