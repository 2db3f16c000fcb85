import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { timingsWith } from '../../config/timings.ts';
import { Redis } from '../../src/store/redis.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { Hosts } from '../support/hosts.ts';

const PORT = 6379;
/** Length of the cut, ms: the kernel sends again what was sent in it 0.2, 0.6, 1.4, 3 and 6.2 s after the first time. */
const CUT_MS = 4000;

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(!Hosts.arePossible)('a Redis on a machine of its own', () => {
  let hosts: Hosts;
  let server: ChildProcess;
  let store: Redis;

  beforeEach(async () => {
    hosts = Hosts.open(1);
    const [command, ...words] = hosts.commandOn(0) as [string, ...string[]];
    const options = ['--port', String(PORT), '--protected-mode', 'no', '--save', ''];
    server = spawn(command, [...words, 'redis-server', ...options], { stdio: 'ignore' });
    const { redis } = timingsWith({
      redis: { askEveryMs: 100, commandTimeoutMs: 400, longestReconnectMs: 200 },
    });
    const url = `redis://${hosts.addressOfRedisClient(0)}:${PORT}`;
    store = await Redis.connect({ url }, silentLog, redis);
  });

  afterEach(async () => {
    await store.close();
    server.kill('SIGKILL');
    hosts.close();
  });

  /** States of the sockets of this machine that lead, or led, to Redis. */
  const socketStates = () =>
    execFileSync('ss', ['-Htan', 'dst', `${hosts.addressOfRedisClient(0)}:${PORT}`])
      .toString()
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => line.split(/\s+/)[0]!);

  test('packets are lost for 4 s: one attempt to connect at a time, and what was sent meanwhile never runs', async () => {
    await store.run((client) => client.set('key', 'first'));
    hosts.setRedisLoss(0, 'all');
    const cutMs = performance.now();
    const written = store.run((client) =>
      Promise.all([client.set('key', 'old'), client.incr('count')]),
    );
    await expect(written).rejects.toThrow('cannot be reached');
    let attempts = 0;
    while (performance.now() < cutMs + CUT_MS) {
      const open = socketStates().filter((state) => state === 'SYN-SENT').length;
      attempts = Math.max(attempts, open);
      await sleep(20);
    }
    expect(attempts).toBe(1);
    hosts.setRedisLoss(0, 'none');
    await eventually('commands work', () => store.isAvailable());
    await store.run((client) => Promise.all([client.set('key', 'new'), client.incr('count')]));
    // The kernel has sent what it still had of the old connections.
    const isOver = (state: string) => state === 'ESTAB' || state === 'TIME-WAIT';
    await eventually('old connections are gone', () => socketStates().every(isOver));
    expect(await store.run((client) => client.mGet(['key', 'count']))).toEqual(['new', '1']);
  });
});
