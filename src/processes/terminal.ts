import { readFileSync } from 'node:fs';
import { isatty } from 'node:tty';

const STDIN = 0;

/**
 * The terminal from which this process was started, if any. When a terminal is closed, everything that was started in it gets
 * SIGHUP, including background processes (`nohup`, `&`): Node resets a signal that the parent had set to be ignored.
 */
export class Terminal {
  /** True if the process was started in the background of a terminal. */
  readonly #startedInBackground: boolean;

  constructor() {
    const { terminal, group, foreground } = readTerminal();
    const isInFront = group === foreground && isatty(STDIN);
    this.#startedInBackground = terminal !== 0 && !isInFront;
  }

  /** True once the terminal has been closed while the process was in its background. */
  get wasLeftInBackground(): boolean {
    return this.#startedInBackground && readTerminal().terminal === 0;
  }
}

/** Fields 5, 7 and 8 of proc_pid_stat(5): process group, controlling terminal (0: none), the terminal's foreground group. */
function readTerminal() {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const [, , group, , terminal, foreground] = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  return { group, terminal, foreground };
}
