import { ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { readSettings } from '../../config/settings.ts';
import { MediaWorkerPool } from '../../src/media/media-worker-pool.ts';
import { startWorkerProcess } from '../../src/media/worker-process.ts';
import { eventually, freeRtcPort, silentLog } from '../support/gateway.ts';
import { useStack } from '../support/use-stack.ts';

/** Media workers that hang before they have started: the real program, behind one that waits while a file exists. */

const { cleanUps } = useStack();

function openFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'partyline-start-'));
  cleanUps.push(() => rmSync(folder, { recursive: true }));
  const [workerBin, hangs, pids] = ['worker', 'hangs', 'pids'].map((name) => join(folder, name));
  const real = readSettings({}).MEDIASOUP_WORKER_BIN;
  const script = `#!/bin/sh
[ -e ${hangs} ] || exec ${real} "$@"
echo $$ >> ${pids}
exec sleep 60
`;
  writeFileSync(workerBin!, script, { mode: 0o755 });
  return {
    workerBin: workerBin!,
    hang: () => writeFileSync(hangs!, ''),
    goOn: () => rmSync(hangs!),
    /** Ids of the processes that have hung. */
    hung: () => (existsSync(pids!) ? (readFileSync(pids!, 'utf8').match(/\d+/g) ?? []) : []),
  };
}

const openPool = (workerBin: string, startWithinMs: number) =>
  MediaWorkerPool.open(
    {
      mediaWorkers: 1,
      workerBin,
      rtcAddresses: () => [{ ip: '127.0.0.1', takesTcp: true, isSet: true }],
      rtcPort: freeRtcPort(),
      routerMaxConsumers: 4,
      timings: { ...DEFAULT_TIMINGS.mediaWorkers, startWithinMs, firstReplacementMs: 10 },
    },
    silentLog,
  );

/** Sets how many files this process may have, by a child that is there already: without descriptors none can be started. */
function limitsOfFiles() {
  const soft = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))![1];
  const script = 'while read -r files; do prlimit --pid "$0" --nofile="$files:"; echo set; done';
  const child = spawn('sh', ['-c', script, String(process.pid)]);
  cleanUps.push(() => void child.stdin.end());
  const set = async (files: number | string | undefined) => {
    child.stdin.write(`${files}\n`);
    await once(child.stdout, 'data');
  };
  return { set, restore: () => set(soft) };
}

const isRunning = (pid: string) => existsSync(`/proc/${pid}`);

test('a media worker that hangs while it starts is killed, and another is started', async () => {
  const { workerBin, hang, goOn, hung } = openFolder();
  const logged = vi.spyOn(silentLog, 'error');
  onTestFinished(() => logged.mockRestore());
  const pool = await openPool(workerBin, 2000);
  cleanUps.push(() => pool.close());
  hang();
  process.kill(pool.pids[0]!, 'SIGKILL');
  const notReplaced = () =>
    logged.mock.calls.filter(([, message]) => message === 'media worker not replaced');
  await eventually('it is given up', () => notReplaced().length > 0);
  goOn();
  const message = 'the media worker has not started within 2000 ms';
  expect(notReplaced()[0]).toMatchObject([{ err: { message }, mediaWorker: 0 }, {}]);
  await eventually('another runs', () => pool.pids.length === 1);
  (await pool.openRouter(() => {})).close();
  expect(hung().length).toBeGreaterThan(0);
  await eventually('those that hung are gone', () => !hung().some(isRunning));
});

test('a pool is closed while a media worker hangs that is being started', async () => {
  const { workerBin, hang, hung } = openFolder();
  const pool = await openPool(workerBin, 600_000);
  hang();
  process.kill(pool.pids[0]!, 'SIGKILL');
  await eventually('another hangs', () => hung().length === 1);
  await pool.close();
  expect(hung().some(isRunning)).toBe(false);
});

test('a pool whose first media worker hangs while it starts is not opened', async () => {
  const { workerBin, hang, hung } = openFolder();
  hang();
  await expect(openPool(workerBin, 1000)).rejects.toThrow('has not started within 1000 ms');
  // On a busy machine it may have been killed before it wrote its id.
  expect(hung().length).toBeLessThanOrEqual(1);
  expect(hung().some(isRunning)).toBe(false);
});

test('a media worker for which there are no descriptors has no process, and none is killed for it', async () => {
  const { workerBin } = openFolder();
  const kill = vi.spyOn(ChildProcess.prototype, 'kill').mockReturnValue(true);
  onTestFinished(() => kill.mockRestore());
  const limits = limitsOfFiles();
  await limits.set(3);
  const start = startWorkerProcess({ workerBin, withinMs: 60_000, signal: undefined });
  const fault = await start.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const kills = kill.mock.calls.length;
  await limits.restore();
  expect(fault).toMatchObject({ code: 'EMFILE' });
  expect(kills).toBe(0);
});
