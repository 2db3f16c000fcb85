import { type ChildProcess, spawn } from 'node:child_process';
import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { noteShortage } from '../resources.ts';
import { type DataDirLock, type Owner, socketPathIn } from './data-dir.ts';
import { probeRedis } from './redis-probe.ts';

/** sockaddr_un holds 108 bytes (unix(7)), the closing 0 among them. */
const MAX_SOCKET_PATH_BYTES = 107;
/**
 * Number of consecutive unanswered probes after which the server counts as hung. Probes are counted instead of milliseconds, because a
 * stall of this process also delays its probes.
 */
const MAX_SILENT_PROBES = 8;
/** Number of checks in a row in which replies replace the probe: only a probe shows that the server still accepts connections. */
const MAX_LEFT_OUT_PROBES = 9;
const POLL_MS = 20;
/** Number of lines of redis-server's output that are kept, to report why it ended. */
const MAX_LAST_LINES = 3;

/** A data folder that is held by a lock. */
export type HeldDataDir = { dataDir: string; owner: Owner; lock: DataDirLock };

/**
 * Child process redis-server of this gateway, with an append-only file; it listens on a socket file only. It is restarted when it ends or
 * hangs, until it is closed.
 */
export class RedisServer {
  readonly socketPath: string;
  readonly #held: HeldDataDir;
  readonly #timings: Timings['redis'];
  readonly #log: FastifyBaseLogger;
  #child: ChildProcess;
  #lastLines: string[] = [];
  #restart: NodeJS.Timeout | undefined;
  #watch: NodeJS.Timeout | undefined;
  #silentProbes = 0;
  #leftOutProbes = 0;
  #countReplies: () => number = () => 0;
  /** Number of replies at the last check. */
  #replies = 0;
  #isProbing = false;
  #isClosing = false;

  private constructor(held: HeldDataDir, timings: Timings['redis'], log: FastifyBaseLogger) {
    this.#held = held;
    this.#timings = timings;
    this.#log = log;
    this.socketPath = socketPathIn(held.dataDir);
    this.#child = this.#spawn();
  }

  /**
   * Resolves when the server answers, even if it still loads its data. Its lock is released when it is closed, or could not
   * be started.
   * @throws {Error} if the program is missing, ends, or does not answer
   */
  static async start(
    held: HeldDataDir,
    timings: Timings['redis'],
    log: FastifyBaseLogger,
    abort?: AbortSignal,
  ): Promise<RedisServer> {
    const { dataDir, lock } = held;
    if (Buffer.byteLength(socketPathIn(dataDir)) > MAX_SOCKET_PATH_BYTES) {
      lock.release();
      throw new Error(`DATA_DIR ${dataDir} is too long a path for a socket: choose a shorter one`);
    }
    const server = new RedisServer(held, timings, log);
    try {
      await server.#untilAnswering(abort);
    } catch (fault) {
      server.#child.kill('SIGKILL');
      await server.close();
      throw fault;
    }
    server.#keep();
    return server;
  }

  /**
   * Leaves out most probes while a client of this process gets replies: these show that the server does not hang, and a connection for
   * each probe costs more. The supervisor of several processes has no client.
   * @param countReplies returns the number of replies that the client has got so far
   */
  trustRepliesOf(countReplies: () => number): void {
    this.#countReplies = countReplies;
  }

  /** Stops redis-server, which writes its data first, and waits until it has ended; kills it after `stopServerWithinMs`. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#restart);
    clearInterval(this.#watch);
    const child = this.#child;
    if (isRunning(child)) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGTERM');
      const kill = setTimeout(() => child.kill('SIGKILL'), this.#timings.stopServerWithinMs);
      await ended;
      clearTimeout(kill);
    }
    this.#held.lock.release();
  }

  /**
   * Starts redis-server in a session of its own: Ctrl-C must not end it while the gateway drains. The kernel ends it when the gateway is
   * killed. redis-server inherits the lock of the data folder, and holds it until it ends. If this process runs as root and another user
   * owns the folder, redis-server runs as that user, so that its files stay readable.
   */
  #spawn(): ChildProcess {
    const { dataDir, owner, lock } = this.#held;
    const { uid, gid } = owner;
    const isForeign = process.getuid?.() === 0 && uid !== 0;
    const user = isForeign ? ['--reuid', `${uid}`, '--regid', `${gid}`, '--clear-groups'] : [];
    const privileges = ['setpriv', ...user, '--pdeathsig', 'TERM', '--'];
    const redis = ['redis-server', '--port', '0', '--unixsocket', 'redis.sock'];
    const files = ['--unixsocketperm', '700', '--dir', '.', '--save', '', '--appendonly', 'yes'];
    const command = [...privileges, ...redis, ...files];
    const child = spawn('sh', ['-c', 'umask 077; exec "$@"', 'sh', ...command], {
      cwd: dataDir,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe', lock.fd],
    });
    this.#lastLines = [];
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => this.#remember(chunk.toString()));
    }
    return child;
  }

  /** Keeps the last lines of redis-server's output, without the time and the process id. */
  #remember(text: string): void {
    const lines = text.split('\n').map((line) => line.replace(/^\d+:\w .{24} [.\-*#] /, '').trim());
    this.#lastLines = [...this.#lastLines, ...lines.filter(Boolean)].slice(-MAX_LAST_LINES);
  }

  async #untilAnswering(abort: AbortSignal | undefined): Promise<void> {
    const child = this.#child;
    let failure: string | undefined;
    child.once('error', (fault) => (failure = fault.message));
    // `close` follows the last output.
    child.once('close', (...how) => {
      const lastOutput =
        this.#lastLines.at(-1) ?? 'check that redis-server is installed and DATA_DIR is writable';
      failure ??= `redis-server ended with ${describeExit(...how)}: ${lastOutput}`;
    });
    const deadlineMs = performance.now() + this.#timings.startWithinMs;
    while (
      (await probeRedis(this.socketPath, this.#timings.checkServerEveryMs)).state !== 'answers'
    ) {
      abort?.throwIfAborted();
      if (failure !== undefined) throw new Error(failure);
      if (performance.now() > deadlineMs) throw new Error('redis-server does not answer');
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  /** Restarts redis-server when it ends, and kills it when it hangs. */
  #keep(): void {
    const child = this.#child;
    const ended = (how: string) => {
      if (this.#isClosing) return;
      const lastOutput = this.#lastLines.at(-1);
      this.#log.error({ how, lastOutput }, 'redis-server ended; restarting');
      this.#startAgainLater();
    };
    child.once('error', (fault) => {
      noteShortage(fault);
      ended(fault.message);
    });
    child.once('exit', (...how) => ended(describeExit(...how)));
    this.#silentProbes = 0;
    clearInterval(this.#watch);
    this.#watch = setInterval(() => void this.#probe(child), this.#timings.checkServerEveryMs);
  }

  #startAgainLater(): void {
    clearInterval(this.#watch);
    clearTimeout(this.#restart);
    this.#restart = setTimeout(() => void this.#startAgain(), this.#timings.restartServerAfterMs);
  }

  async #startAgain(): Promise<void> {
    const { state } = await probeRedis(this.socketPath, this.#timings.checkServerEveryMs);
    if (this.#isClosing) return;
    if (state === 'absent') {
      try {
        this.#child = this.#spawn();
        this.#keep();
      } catch (fault) {
        // Some faults, such as ENOMEM, are thrown at once.
        this.#log.error({ err: fault }, 'redis-server not started; retrying');
        noteShortage(fault);
        this.#startAgainLater();
      }
      return;
    }
    this.#log.error('redis-server not restarted: another server listens on its socket; retrying');
    this.#startAgainLater();
  }

  async #probe(child: ChildProcess): Promise<void> {
    if (this.#isProbing || this.#leavesOutProbe()) return;
    this.#isProbing = true;
    const { state } = await probeRedis(this.socketPath, this.#timings.checkServerEveryMs);
    this.#isProbing = false;
    if (this.#isClosing || child !== this.#child) return;
    this.#silentProbes = state === 'answers' ? 0 : this.#silentProbes + 1;
    if (this.#silentProbes !== MAX_SILENT_PROBES) return;
    this.#log.error({ probes: MAX_SILENT_PROBES }, 'redis-server hangs; killed');
    child.kill('SIGKILL');
  }

  /** Returns true if replies since the last check replace the probe. After an unanswered probe they do not. */
  #leavesOutProbe(): boolean {
    const before = this.#replies;
    this.#replies = this.#countReplies();
    const isLeftOut =
      this.#replies > before &&
      this.#silentProbes === 0 &&
      this.#leftOutProbes < MAX_LEFT_OUT_PROBES;
    this.#leftOutProbes = isLeftOut ? this.#leftOutProbes + 1 : 0;
    return isLeftOut;
  }
}

const isRunning = (child: ChildProcess) =>
  child.pid !== undefined && child.exitCode === null && child.signalCode === null;

const describeExit = (code: number | null, signal: NodeJS.Signals | null) =>
  signal ? `signal ${signal}` : `exit code ${code}`;
