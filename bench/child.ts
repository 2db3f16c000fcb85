import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';

const READY_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 5000;
const PIN_TRIES = 5;

/**
 * Number of cores of the machine, read at the start: once this process is bound to one core, the system
 * reports only that one.
 */
export const CORES = availableParallelism();
/** Cores of processes that are to use more than one. */
export const ALL_CORES = `0-${CORES - 1}`;

/** With two cores or more, the load is made on one and what is measured runs on another. */
export const PINNING =
  process.platform === 'linux' && CORES > 1 && hasTaskset() ? { load: 0, measured: 1 } : undefined;

/** Binds all threads of this process to the core of the load. */
export function pinLoad(): void {
  if (PINNING) pin(process.pid, String(PINNING.load));
}

/** Binds all threads of a process to cores: `1`, or `0-3`. */
export function pin(pid: number, cores: string): void {
  const list = ['-a', '-c', '-p', cores, String(pid)];
  for (let triesLeft = PIN_TRIES; ; triesLeft -= 1) {
    try {
      execFileSync('taskset', list, { stdio: 'ignore' });
      return;
    } catch (fault) {
      // taskset fails if a thread ends meanwhile, as Node's do at the start.
      if (triesLeft === 1) throw fault;
    }
  }
}

/** A process on the measured core, or on others; it ends when this process does, whatever the cause. */
export class Child {
  readonly process: ChildProcess;
  readonly pid: number;
  readonly #name: string;
  readonly #exited: Promise<unknown>;
  #output = '';
  #wake = () => {};

  constructor(
    name: string,
    command: string[],
    environment: Record<string, string> = {},
    cores = String(PINNING?.measured),
  ) {
    const taskset = PINNING ? ['taskset', '-c', cores] : [];
    // taskset and setpriv replace themselves by the program, so that its pid is that of the child.
    const whole = [...taskset, 'setpriv', '--pdeathsig', 'TERM', '--', ...command];
    this.#name = name;
    this.process = spawn(whole[0]!, whole.slice(1), {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    if (this.process.pid === undefined) throw new Error(`${name} did not start`);
    this.pid = this.process.pid;
    this.#exited = once(this.process, 'exit').then(() => this.#wake());
    this.process.stdout?.on('data', (chunk: Buffer) => {
      this.#output += chunk.toString();
      this.#wake();
    });
  }

  /** Returns the content of the line `ready {…}` that the process prints. */
  async ready(withinMs = READY_TIMEOUT_MS): Promise<Record<string, string | number>> {
    const deadline = AbortSignal.timeout(withinMs);
    for (;;) {
      const [, json] = /^ready (.*)\n/m.exec(this.#output) ?? [];
      if (json) return JSON.parse(json) as Record<string, string | number>;
      if (this.hasExited || deadline.aborted) {
        throw new Error(`${this.#name} did not become ready; it said:\n${this.#output}`);
      }
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        deadline.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  /**
   * Returns the next message from the process over its channel.
   * @throws {Error} if the process ends first, or sends nothing for `withinMs`
   */
  async nextMessage<T>(withinMs: number): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => reject(new Error(`${this.#name} does not answer`)), withinMs);
    });
    const ended = this.#exited.then(() => {
      throw new Error(`${this.#name} has ended; it said:\n${this.#output}`);
    });
    try {
      const [message] = (await Promise.race([once(this.process, 'message'), late, ended])) as [T];
      return message;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the process, by force if it does not end by itself. */
  async stop(): Promise<void> {
    if (this.hasExited) return;
    const force = setTimeout(() => this.process.kill('SIGKILL'), STOP_TIMEOUT_MS);
    this.process.kill('SIGTERM');
    await this.#exited;
    clearTimeout(force);
  }

  get hasExited(): boolean {
    return this.process.exitCode !== null || this.process.signalCode !== null;
  }
}

function hasTaskset(): boolean {
  try {
    execFileSync('taskset', ['--version'], { stdio: 'ignore' });
    return true;
  } catch {
    // Without a fixed core the figures are only noisier.
    return false;
  }
}
