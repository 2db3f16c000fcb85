import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { noteShortage } from '../resources.ts';
import { sendSocket } from '../handover/send-socket.ts';

/**
 * Numbers of checks without a message after which a child looks silent, and hangs. Checks are counted instead of
 * milliseconds, so that a stall of this process does not look like one of the child.
 */
const SILENT_AFTER_CHECKS = 3;
const MAX_SILENT_CHECKS = 10;
const WELL = 'exit code 0';

export type KeptProcessOptions = {
  /** Name in the log. */
  name: string;
  /** The program and its arguments, for this same Node. */
  command: string[];
  environment: Record<string, string | undefined>;
  /** Signal that the kernel sends it if this process is killed, and that `close` sends. */
  endSignal: 'SIGTERM' | 'SIGINT';
  /**
   * Receives its messages; given, the child has a channel to this process, and is killed when it sends nothing for
   * seconds after its first message.
   */
  onMessage?: (message: unknown, connection?: Socket) => void;
  /** Called when it has sent nothing for 3 checks. */
  onSilent?: () => void;
  /** Called each time it ends without having been asked to by this process; `isWell` if it exited with code 0. */
  onEnd?: (how: string, isWell: boolean) => void;
  timings: Timings['processes'];
};

/** Child process that is restarted when it ends, after a delay that grows while it keeps ending. */
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
   * Sends a message; it is lost if the child is not connected.
   * @param connection connection sent along, or closed if that fails
   */
  send(message: object, connection?: Socket): void {
    const { acceptWithinMs } = this.#options.timings;
    if (connection) sendSocket(this.#child, message, connection, acceptWithinMs);
    else if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** Asks the child by a message to end within `withinMs`, then kills it; resolves when it has ended. */
  leave(message: object, withinMs: number): Promise<void> {
    // A child without a channel has ended, or is killed when the time is over.
    return this.#end(withinMs, (child) => child.connected && child.send(message, () => {}));
  }

  /** Ends the child; resolves when it has ended. */
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
    const endsWithinMs = withinMs + this.#options.timings.killAfterMs;
    const kill = setTimeout(() => {
      this.#log.error({ endsWithinMs }, 'process not ended in time; killed');
      child.kill('SIGKILL');
    }, endsWithinMs);
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

  /**
   * Starts the child in its own session, so that Ctrl-C reaches only this process; the kernel ends the child
   * if this process is killed.
   */
  #start(): ChildProcess {
    const { command, environment, endSignal, onMessage } = this.#options;
    const deathSignal = ['--pdeathsig', endSignal.slice('SIG'.length), '--'];
    const child = spawn('setpriv', [...deathSignal, process.execPath, ...command], {
      env: environment,
      detached: true,
      stdio: ['ignore', 'inherit', 'inherit', ...(onMessage ? ['ipc' as const] : [])],
      // Messages may hold Buffers.
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

  /** Kills a child that hangs, to which the kernel would otherwise continue to assign connections. */
  #watch(child: ChildProcess): void {
    const { checkEveryMs } = this.#options.timings;
    let silentChecks = 0;
    let watching: NodeJS.Timeout | undefined;
    const check = () => {
      silentChecks += 1;
      if (silentChecks === SILENT_AFTER_CHECKS) {
        this.#log.warn({ silentMs: silentChecks * checkEveryMs }, 'process silent');
        this.#options.onSilent?.();
      }
      if (silentChecks < MAX_SILENT_CHECKS) return;
      this.#log.error({ silentMs: silentChecks * checkEveryMs }, 'process hangs; killed');
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
    // A child that was asked to leave exits with code 0.
    const level = how === WELL ? 'info' : 'error';
    this.#log[level]({ how, restartAfterMs }, 'process ended; restarting');
    clearTimeout(this.#restart);
    this.#restart = setTimeout(() => this.#startAgain(), restartAfterMs);
    this.#options.onEnd?.(how, how === WELL);
  }
}
