import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { eventually } from './gateway.ts';

/** Time in which a command ends that has been told to, or that fails. */
const END_TIMEOUT_MS = 60_000;
const PROJECT = join(import.meta.dirname, '../..');

/** Returns the commands that a page of docs prints, one for each block. */
export const commandsOf = (page: string): string[] =>
  [...readFileSync(join(PROJECT, page), 'utf8').matchAll(/```sh\n([^]*?)```/g)].map(
    ([, block]) => block!,
  );

/** A command that a page prints, run by a shell in a process group of its own, as a terminal does. */
export class PrintedCommand {
  /** Everything that it wrote, to either stream. */
  output = '';
  readonly #child: ChildProcess;
  /** Undefined until all processes of the command have closed their output. */
  #end: { code: number | null } | undefined;

  /**
   * @param replaced what stands for other words in the command, such as the address of the gateway
   * @param environment beyond `PATH`, which leads to the Node of this project first
   */
  constructor(
    command: string,
    replaced: Record<string, string>,
    environment: Record<string, string> = {},
  ) {
    const words = Object.entries(replaced).reduce(
      (text, [printed, own]) => text.replaceAll(printed, own),
      command,
    );
    const path = [dirname(process.execPath), '/usr/bin', '/bin'].join(delimiter);
    this.#child = spawn('sh', ['-e', '-c', words], {
      cwd: PROJECT,
      env: { PATH: path, ...environment },
      detached: true,
    });
    this.#child.once('close', (code) => (this.#end = { code }));
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
  }

  /** Awaits its end. @returns the exit code; null if a signal ended it @throws {Error} with its output if it does not end */
  async exitCode(): Promise<number | null> {
    try {
      await eventually('its end', () => this.#end !== undefined, END_TIMEOUT_MS);
    } catch (fault) {
      throw new Error(`it has not ended: ${this.output}`, { cause: fault });
    }
    return this.#end!.code;
  }

  /** Presses Ctrl-C, and waits for the end. */
  async interrupt(): Promise<void> {
    this.#signal('SIGINT');
    await this.exitCode();
  }

  /** Ends it, if it still runs. */
  async close(): Promise<void> {
    this.#signal('SIGKILL');
    await this.exitCode();
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.#child.pid!, signal);
    } catch (error) {
      // All of its processes have ended.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}
