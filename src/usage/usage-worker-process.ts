import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { FastifyBaseLogger } from 'fastify';
import { environmentOf, type Settings } from '../../config/settings.ts';

const PROGRAM = fileURLToPath(new URL('../../workers/usage.ts', import.meta.url));
const RESTART_AFTER_MS = 1000;
const KILL_AFTER_MS = 10_000;

/** A usage worker as a child of the gateway: started again when it dies. */
export class UsageWorkerProcess {
  readonly #settings: Settings;
  readonly #log: FastifyBaseLogger;
  #child: ChildProcess;
  #restart: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(settings: Settings, log: FastifyBaseLogger) {
    this.#settings = settings;
    this.#log = log;
    this.#child = this.#start();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    const hasStarted = child.pid !== undefined;
    if (!hasStarted || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    const kill = setTimeout(() => child.kill('SIGKILL'), KILL_AFTER_MS);
    await exited;
    clearTimeout(kill);
  }

  /** In a session of its own, so that Ctrl-C reaches only the gateway; the kernel ends it should the gateway be killed. */
  #start(): ChildProcess {
    const child = spawn('setpriv', ['--pdeathsig', 'TERM', '--', process.execPath, PROGRAM], {
      env: environmentOf(this.#settings),
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child.once('error', (fault) => this.#log.error({ err: fault }, 'usage worker not started'));
    child.once('exit', (code, signal) => {
      if (this.#isClosed) return;
      this.#log.error({ code, signal }, 'the usage worker ended; started again');
      this.#restart = setTimeout(() => {
        this.#child = this.#start();
      }, RESTART_AFTER_MS);
    });
    return child;
  }
}
