import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { noteShortage } from '../resources.ts';
import { sendConnection } from './send-connection.ts';

/**
 * Numbers of checks without a message after which a child looks silent, and hangs. Checks are counted instead of
 * milliseconds, so that a stall of this process does not look like one of the child.
 */
const SILENT_AFTER_CHECKS = 3;
const MAX_SILENT_CHECKS = 10;
const WELL = 'exit code 0';

export type KeptProcessOptions = {
  /** What it is called in the log. */
  name: string;
  /** The program and its arguments, for this same Node. */
  command: string[];
  environment: Record<string, string | undefined>;
  /** What the kernel sends it should this process be killed, and what `close` sends. */
  endSignal: 'SIGTERM' | 'SIGINT';
  /** Takes what it sends over the channel that it has then; having begun, it must send something every few seconds, or is killed. */
  onMessage?: (message: unknown, connection?: Socket) => void;
  /** Called when it has not been heard for a while. */
  onSilent?: () => void;
  /** Called each time it ends without having been told to by this process; well if another asked it to leave. */
  onEnd?: (how: string, isWell: boolean) => void;
  timings: Timings['processes'];
};

/** A child that is started again when it ends, ever later when it keeps ending. */
export class KeptProcess {
  readonly #options: KeptProcessOptions;
  readonly #log: FastifyBaseLogger;
  #child: ChildProcess;
  #restart: NodeJS.Timeout | undefined;
  #restartAfterMs: number;
  #isEnding = false;

  constructor(options: KeptProcessOptions, log: FastifyBaseLogger) {
    this.#options = options;
    this.#restartAfterMs = options.timings.firstRestartMs;
    this.#log = log.child({ process: options.name });
    this.#child = this.#start();
  }

  /**
   * Sends a message; one that is not there, or cannot be told, does not get it.
   * @param connection goes with it, and is closed if it cannot
   */
  send(message: object, connection?: Socket): void {
    if (connection) sendConnection(this.#child, message, connection);
    else if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** Sends a message that asks it to end within a time; resolves when it has. */
  leave(message: object, withinMs: number): Promise<void> {
    // One that cannot be told is gone, or is killed when the time is over.
    return this.#end(withinMs, (child) => child.connected && child.send(message, () => {}));
  }

  /** Ends it; resolves when it has. */
  close(): Promise<void> {
    return this.#end(0, (child) => child.kill(this.#options.endSignal));
  }

  async #end(withinMs: number, tell: (child: ChildProcess) => void): Promise<void> {
    this.#isEnding = true;
    clearTimeout(this.#restart);
    const child = this.#child;
    const hasStarted = child.pid !== undefined;
    if (!hasStarted || child.exitCode !== null || child.signalCode !== null) return;
    const exited = new Promise((resolve) => child.once('exit', resolve));
    tell(child);
    const kill = setTimeout(
      () => child.kill('SIGKILL'),
      withinMs + this.#options.timings.killAfterMs,
    );
    await exited;
    clearTimeout(kill);
  }

  #startAgain(): void {
    const startedMs = performance.now();
    try {
      this.#child = this.#start();
    } catch (fault) {
      // Some faults, such as ENOMEM, are thrown at once.
      noteShortage(fault);
      this.#ended(String(fault), startedMs);
    }
  }

  /** In a session of its own, so that Ctrl-C reaches only this process; the kernel ends it should this one be killed. */
  #start(): ChildProcess {
    const { command, environment, endSignal, onMessage } = this.#options;
    const deathSignal = ['--pdeathsig', endSignal.slice('SIG'.length), '--'];
    const child = spawn('setpriv', [...deathSignal, process.execPath, ...command], {
      env: environment,
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit', ...(onMessage ? ['ipc' as const] : [])],
      // Bytes may be among them.
      serialization: 'advanced',
    });
    const startedMs = performance.now();
    if (onMessage) {
      child.on('message', (message, handle) => {
        onMessage(message, handle instanceof Socket ? handle : undefined);
      });
      this.#watch(child);
    }
    child.once('error', (fault) => {
      noteShortage(fault);
      this.#ended(fault.message, startedMs);
    });
    child.once('exit', (code, signal) => {
      this.#ended(signal ? `signal ${signal}` : `exit code ${code}`, startedMs);
    });
    return child;
  }

  /** Kills a child that hangs: the kernel would go on dealing out connections to it. */
  #watch(child: ChildProcess): void {
    const { checkEveryMs } = this.#options.timings;
    let silentChecks = 0;
    let watching: NodeJS.Timeout | undefined;
    const check = () => {
      silentChecks += 1;
      if (silentChecks === SILENT_AFTER_CHECKS) {
        this.#log.warn({ silentMs: silentChecks * checkEveryMs }, 'a process is silent');
        this.#options.onSilent?.();
      }
      if (silentChecks < MAX_SILENT_CHECKS) return;
      this.#log.error({ silentMs: silentChecks * checkEveryMs }, 'a process hangs; it is killed');
      child.kill('SIGKILL');
    };
    child.on('message', () => {
      silentChecks = 0;
      watching ??= setInterval(check, checkEveryMs);
    });
    child.once('exit', () => clearInterval(watching));
  }

  #ended(how: string, startedMs: number): void {
    if (this.#isEnding) return;
    const { steadyAfterMs, firstRestartMs, longestRestartMs } = this.#options.timings;
    if (performance.now() - startedMs > steadyAfterMs) this.#restartAfterMs = firstRestartMs;
    const restartAfterMs = this.#restartAfterMs;
    this.#restartAfterMs = Math.min(2 * restartAfterMs, longestRestartMs);
    // One that was asked to leave ends well.
    const level = how === WELL ? 'info' : 'error';
    this.#log[level]({ how, restartAfterMs }, 'a process ended; it is started again');
    clearTimeout(this.#restart);
    this.#restart = setTimeout(() => this.#startAgain(), restartAfterMs);
    this.#options.onEnd?.(how, how === WELL);
  }
}
