import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, constants, openSync, readFileSync, writeSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, test } from 'vitest';
import { eventually, freeRtcPort } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis } = useStack();

const WORKER = fileURLToPath(new URL('../../workers/usage.ts', import.meta.url));

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

/** Time for which a reader reads nothing while a process logs, ms. */
const STOPPED_MS = 2000;
/** Stall of an event loop that a busy machine may cause, ms. */
const MAX_STALL_MS = 1000;

/** Opens a named pipe that nobody reads. */
async function openPipe() {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-pipe-'));
  cleanUps.push(() => rm(folder, { recursive: true }));
  const path = join(folder, 'log');
  execFileSync('mkfifo', [path]);
  const reader = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const writer = openSync(path, 'w');
  cleanUps.push(() => closeSync(writer));
  return { reader, writer };
}

/** Starts a program with a log that nobody reads until `resume` is called. */
async function startUnread(kind: 'pipe' | 'socket', [program = '', ...words]: string[]) {
  if (kind === 'socket') {
    const child = spawn(program, words, { stdio: ['ignore', 'pipe', 'pipe'] });
    return { child, errors: child.stderr, resume: () => void child.stdout.resume() };
  }
  const { reader, writer } = await openPipe();
  const child = spawn(program, words, { stdio: ['ignore', writer, 'pipe'] });
  const socket = new Socket({ fd: reader });
  cleanUps.push(() => socket.destroy());
  return { child, errors: child.stderr!, resume: () => void socket.resume() };
}

test.each([
  // As `docker logs` reads.
  'pipe',
  // As the journal of systemd reads.
  'socket',
] as const)(
  'a stopped reader of the log (%s) does not stall a process that has started a child again',
  async (kind) => {
    const program = fileURLToPath(new URL('../support/logging-parent.ts', import.meta.url));
    const { child, errors, resume } = await startUnread(kind, [process.execPath, program]);
    cleanUps.push(() => child.kill('SIGKILL'));
    const exited = once(child, 'exit');
    const lines = createInterface(errors)[Symbol.asyncIterator]();
    expect(await lines.next()).toMatchObject({ value: 'logging' });
    const resuming = setTimeout(resume, STOPPED_MS);
    const { value } = (await lines.next()) as { value: string };
    clearTimeout(resuming);
    resume();
    const { longestStallMs, lost } = JSON.parse(value) as Record<string, number>;
    expect(longestStallMs).toBeLessThan(MAX_STALL_MS);
    expect(lost).toBeGreaterThan(0);
    expect(await exited).toEqual([0, null]);
  },
);

/** Opens a named pipe that is full, and that nobody reads. */
async function openFullPipe(): Promise<number> {
  const { reader, writer } = await openPipe();
  cleanUps.push(() => closeSync(reader));
  for (const bytes of [Buffer.alloc(4096), Buffer.alloc(1)]) {
    const fill = () => {
      for (;;) writeSync(reader, bytes);
    };
    expect(fill).toThrow('EAGAIN');
  }
  return writer;
}

/** Returns true if writes to the standard output of a process never block. */
function isUnblocked({ pid }: ChildProcess): boolean {
  const [, flags = ''] = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/1`, 'utf8'))!;
  return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) !== 0;
}

test('a usage worker whose log nobody reads starts, serves its health, and ends on a signal', async () => {
  const redis = await openRedis();
  const port = freeRtcPort();
  const env = { ...process.env, REDIS_URL: redis.url, WORKER_PORT: String(port) };
  const stdio = ['ignore' as const, await openFullPipe(), 'inherit' as const];
  const worker = spawn(process.execPath, [WORKER], { env, stdio });
  const exited = once(worker, 'exit');
  cleanUps.push(() => worker.kill('SIGKILL'));
  const isHealthy = async () => (await fetch(`http://127.0.0.1:${port}/healthz`)).ok;
  await eventually('it listens', () => isHealthy().catch(() => false));
  expect(isUnblocked(worker)).toBe(true);
  worker.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
});
