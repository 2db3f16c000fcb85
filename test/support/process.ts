import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TimingOverrides, TIMINGS_VARIABLE } from '../../config/timings.ts';
import { eventually, freeRtcPort, NEVER_OVERLOADED } from './gateway.ts';
import { startArguments } from './start-arguments.ts';

/** Node, Redis and the media workers, on a machine that may be busy with other tests. */
const START_TIMEOUT_MS = 60_000;
/** Time in which a process exits that has been told to, or that fails. */
const EXIT_TIMEOUT_MS = 60_000;
/** Number of characters of the output of a process that hangs which its error has: its last lines. */
const SHOWN_OUTPUT_LENGTH = 4000;

/** Environment of a process that is to have shorter durations than the product's. */
export const timingsOf = (overrides: TimingOverrides) => ({
  [TIMINGS_VARIABLE]: JSON.stringify(overrides),
});

type Ready = { url: string; account_id: number; api_key: string; lan_urls?: string[] };

/** The gateway as its users run it: a process of its own. */
export class GatewayProcess {
  readonly dataDir: string;
  readonly child: ChildProcess;
  /** Everything that it wrote, to either stream. */
  output = '';
  readonly exited: Promise<number | null>;

  private constructor(dataDir: string, environment: Record<string, string>, command: string[]) {
    this.dataDir = dataDir;
    const [program, ...words] = command;
    this.child = spawn(program!, words, {
      env: {
        ...process.env,
        PORT: '0',
        DATA_DIR: dataDir,
        MEDIA_WORKERS: '1',
        RTC_PORT: String(freeRtcPort()),
        ...NEVER_OVERLOADED,
        ...environment,
      },
    });
    this.exited = once(this.child, 'exit').then(([code]) => code as number | null);
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.output += chunk.toString()));
    }
  }

  /** @param commandBefore what its command begins with, to run it on another host */
  static async start(
    environment: Record<string, string> = {},
    dataDir?: string,
    commandBefore: string[] = [],
  ): Promise<GatewayProcess> {
    const command = [...commandBefore, process.execPath, ...startArguments()];
    return GatewayProcess.startWith(command, environment, dataDir);
  }

  /** By a command that starts it in the end. */
  static async startWith(
    command: string[],
    environment: Record<string, string> = {},
    dataDir?: string,
  ): Promise<GatewayProcess> {
    const folder = dataDir ?? (await mkdtemp(join(tmpdir(), 'partyline-process-')));
    return new GatewayProcess(folder, environment, command);
  }

  /** Content of the line `ready {…}`. */
  async ready(): Promise<Ready> {
    const isOver = () => this.child.exitCode !== null || /^ready .*\r?\n/m.test(this.output);
    try {
      await eventually('the ready line', isOver, START_TIMEOUT_MS);
    } catch (fault) {
      throw new Error(`it is not ready: ${this.output}`, { cause: fault });
    }
    if (this.child.exitCode !== null) throw new Error(`it has ended: ${this.output}`);
    const [, json] = /^ready (.*)$/m.exec(this.output) ?? [];
    return JSON.parse(json ?? '') as Ready;
  }

  /** Awaits its exit. @returns the exit code @throws {Error} with the end of its output if it does not exit */
  async exitCode(): Promise<number | null> {
    const hasExited = () => this.child.exitCode !== null || this.child.signalCode !== null;
    try {
      await eventually('its exit', hasExited, EXIT_TIMEOUT_MS);
    } catch (fault) {
      const shown = this.output.slice(-SHOWN_OUTPUT_LENGTH);
      throw new Error(`it has not exited: ${shown}`, { cause: fault });
    }
    return this.exited;
  }

  /** The processes that it has started, and those that they have, which still run. */
  async descendantPids(): Promise<number[]> {
    const pids = (await readdir('/proc')).map(Number).filter((pid) => pid > 0);
    const parents = await Promise.all(pids.map(async (pid) => [pid, await parentOf(pid)] as const));
    const childrenOf = (of: number | undefined): number[] =>
      parents.filter(([, parent]) => parent === of).flatMap(([pid]) => [pid, ...childrenOf(pid)]);
    return childrenOf(this.child.pid);
  }

  /** One of those, by the name of its program. */
  async descendantPid(program: string): Promise<number> {
    for (const pid of await this.descendantPids()) {
      if ((await readFile(`/proc/${pid}/comm`, 'utf8')).trim() === program) return pid;
    }
    throw new Error(`there is no ${program}`);
  }

  /** Counts the files of the process itself and of each of its children. */
  async countOpenFiles(): Promise<number[]> {
    const pids = [this.child.pid!, ...(await this.descendantPids())];
    return Promise.all(pids.map(async (pid) => (await readdir(`/proc/${pid}/fd`)).length));
  }

  /** Returns the log lines with a message. */
  logged(message: string): Record<string, unknown>[] {
    return this.output
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => msg === message);
  }

  /** Kills it and all below it, if they still run (a stopped process would not end by itself), and removes its folder. */
  async dispose(): Promise<void> {
    const below = await this.descendantPids();
    this.child.kill('SIGKILL');
    for (const pid of below) kill(pid);
    await this.exited;
    await rm(this.dataDir, { recursive: true, force: true, maxRetries: 10 });
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It has ended in the meantime.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

export async function untilEnded(pids: number[]): Promise<void> {
  for (const pid of pids) await eventually(`${pid} ends`, async () => !(await isRunning(pid)));
}

async function isRunning(pid: number): Promise<boolean> {
  return (await parentOf(pid)) !== undefined;
}

/** Undefined for a process that has gone, or is a zombie. */
async function parentOf(pid: number): Promise<number | undefined> {
  try {
    const status = await readFile(`/proc/${pid}/stat`, 'utf8');
    const [state, parent] = status.slice(status.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' ? undefined : Number(parent);
  } catch {
    // It has gone since the folder was read.
    return undefined;
  }
}
