import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import type { FastifyBaseLogger } from 'fastify';
import { createClient } from 'redis';
import type { RedisAddress } from './client.ts';

/** sockaddr_un holds 108 bytes (unix(7)), the closing 0 among them. */
const MAX_SOCKET_PATH_BYTES = 107;
const START_TIMEOUT_MS = 10_000;

/** One that ends is started again so much later. */
const RESTART_AFTER_MS = 1000;

/** A redis-server of the gateway's own: a child process that listens on a socket file only, and is there until it is closed. */
export type RedisServer = {
  socketPath: string;
  /** Lets it write what it holds, and waits until it has gone. */
  close(): Promise<void>;
};

type RedisSettings = { REDIS_URL: string; DATA_DIR: string };
const SOCKET_SCHEME = 'unix://';

/** Where Redis is: the operator's, or the gateway's own, which listens in its data folder while it runs. */
export function redisAddressOf({ REDIS_URL: url, DATA_DIR: dataDir }: RedisSettings): RedisAddress {
  if (url === '') return { socketPath: socketPathIn(dataDir) };
  return url.startsWith(SOCKET_SCHEME) ? { socketPath: url.slice(SOCKET_SCHEME.length) } : { url };
}

/**
 * The URL of the operator's Redis, or of one that is started, and closed by the stack.
 * @throws {Error} as {@link startRedisServer}
 */
export async function openRedisUrl(
  { REDIS_URL: url, DATA_DIR: dataDir }: RedisSettings,
  opened: AsyncDisposableStack,
  log: FastifyBaseLogger,
): Promise<string> {
  if (url !== '') return url;
  const onEnd = (how: string) => {
    log.error({ how, restartAfterMs: RESTART_AFTER_MS }, 'redis-server ended; it is started again');
  };
  const server = opened.adopt(await startRedisServer(dataDir, onEnd), (part) => part.close());
  return SOCKET_SCHEME + server.socketPath;
}

/** Whether a gateway runs that has its own Redis in this folder. */
export function isRedisServerRunning(dataDir: string): Promise<boolean> {
  return answers(socketPathIn(dataDir));
}

/** The shorter of two ways to say it. */
function socketPathIn(dataDir: string): string {
  const absolutePath = join(dataDir, 'redis.sock');
  const relativePath = relative(process.cwd(), absolutePath);
  return relativePath.length < absolutePath.length ? relativePath : absolutePath;
}

/**
 * Starts `redis-server` with an append-only file in `dataDir`.
 * @param onEnd called when it ends without having been told to; it is started again then, with what is in the file
 * @throws {Error} if there is no such program, the folder is in use by another gateway, or Redis does not answer
 */
export async function startRedisServer(
  dataDir: string,
  onEnd: (how: string) => void = () => {},
): Promise<RedisServer> {
  await mkdir(dataDir, { recursive: true });
  const socketPath = socketPathIn(dataDir);
  if (Buffer.byteLength(socketPath) > MAX_SOCKET_PATH_BYTES) {
    throw new Error(`DATA_DIR ${dataDir} is too long a path for a socket: choose a shorter one`);
  }
  if (await answers(socketPath)) {
    throw new Error(`another gateway uses ${dataDir}: stop it, or set DATA_DIR or REDIS_URL`);
  }
  let child = spawnRedis(dataDir);
  try {
    await untilAnswering(child, socketPath);
  } catch (fault) {
    child.kill('SIGKILL');
    throw fault;
  }
  let isClosing = false;
  let restart: NodeJS.Timeout | undefined;
  const keep = () => {
    const ended = (how: string) => {
      if (isClosing) return;
      onEnd(how);
      clearTimeout(restart);
      restart = setTimeout(() => {
        child = spawnRedis(dataDir);
        keep();
      }, RESTART_AFTER_MS);
    };
    child.once('error', (fault) => ended(fault.message));
    child.once('exit', (code, signal) => ended(signal ? `signal ${signal}` : `exit code ${code}`));
  };
  keep();
  return {
    socketPath,
    close: async () => {
      isClosing = true;
      clearTimeout(restart);
      const isThere =
        child.pid !== undefined && child.exitCode === null && child.signalCode === null;
      if (!isThere) return;
      const exited = once(child, 'exit');
      child.kill('SIGTERM');
      await exited;
    },
  };
}

/**
 * In a session of its own, so that Ctrl-C reaches only the gateway, which still needs it to take its leave; and with
 * the kernel's promise to end it should the gateway be killed.
 */
function spawnRedis(dataDir: string): ChildProcess {
  const redis = ['redis-server', '--port', '0', '--unixsocket', 'redis.sock'];
  const files = ['--unixsocketperm', '700', '--dir', '.', '--save', '', '--appendonly', 'yes'];
  return spawn('setpriv', ['--pdeathsig', 'TERM', '--', ...redis, ...files], {
    cwd: dataDir,
    detached: true,
    stdio: 'ignore',
  });
}

async function untilAnswering(child: ChildProcess, socketPath: string): Promise<void> {
  let failure: Error | undefined;
  child.once('error', (fault) => (failure = fault));
  child.once('exit', (code) => {
    failure ??= new Error(
      `redis-server ended with code ${code}: is it installed, and DATA_DIR writable?`,
    );
  });
  const deadlineMs = performance.now() + START_TIMEOUT_MS;
  while (!(await answers(socketPath))) {
    if (failure) throw failure;
    if (performance.now() > deadlineMs) throw new Error('redis-server does not answer');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function answers(socketPath: string): Promise<boolean> {
  const client = createClient({
    socket: { path: socketPath, tls: false, reconnectStrategy: false },
  });
  // What is wrong is thrown by the calls below as well.
  client.on('error', () => {});
  try {
    await client.connect();
    await client.ping();
    return true;
  } catch {
    // Not there, or (LOADING) not ready yet: either way it does not answer.
    return false;
  } finally {
    if (client.isOpen) client.destroy();
  }
}
