import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cgroup } from '../support/cgroups.ts';
import type { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { opusTone, play } from '../support/sound.ts';
import { useStack } from '../support/use-stack.ts';

const { connect, enter, openGateway, openNodes, openRedis, openStore, cleanUps } = useStack();

type Node = { url: string; apiKey: string };

const MB = 1e6;
const TIMINGS = {
  load: { sampleEveryMs: 100, scrapeEveryMs: 1, shortAfterFaultMs: 4000 },
  mediaWorkers: { firstReplacementMs: 50, longestReplacementMs: 200 },
};

async function start(environment: Record<string, string>, commandBefore: string[] = []) {
  const settings = { USAGE_WORKERS: '0', ...timingsOf(TIMINGS), ...environment };
  const gateway = await GatewayProcess.start(settings, undefined, commandBefore);
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  return { gateway, url, apiKey };
}

async function metricOf({ url }: Node, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((each) => each.startsWith(`partyline_${name} `));
  return Number(line?.split(' ')[1]);
}

const untilMetric = (node: Node, name: string, value: number) =>
  eventually(`${name} is ${value}`, async () => (await metricOf(node, name)) === value);

/** Newcomers are refused and told when to come again; the figures and `/readyz` say why. */
async function expectShort(node: Node, resource: string): Promise<void> {
  await untilMetric(node, `short{resource="${resource}"}`, 1);
  const newcomer = await connect(node, { peer: 'newcomer' });
  expect(await newcomer.next('error')).toMatchObject({
    code: 'overloaded',
    retry_after_ms: expect.any(Number) as number,
  });
  expect(await newcomer.closed).toBe(1013);
  const { status } = await fetch(`${node.url}/readyz`);
  expect(status).toBe(503);
}

/** All is as before. */
async function expectWell(node: Node, resource: string): Promise<void> {
  await untilMetric(node, `short{resource="${resource}"}`, 0);
  await untilMetric(node, 'ready', 1);
  await enter(node, 'newcomer', { room: 'another' });
}

async function expectHeard(speaker: TestClient, listener: TestClient): Promise<void> {
  const before = listener.frames.length;
  const tone = await opusTone(1000, 0.5, 300);
  await play(speaker, tone);
  await eventually('every frame', () => listener.frames.length - before === tone.length);
}

const noCgroup = (controller: 'memory' | 'pids') =>
  Cgroup.isPossible(controller) ? false : `this user can make no cgroup for ${controller}`;

describe('memory', () => {
  test('of the heap: calls go on, newcomers wait until there is some', async () => {
    // When V8 collects what is no longer held is its own affair: up to a minute later, if little
    // is done meanwhile.
    const ballast = `
      import { getHeapStatistics, setFlagsFromString } from 'node:v8';
      import { runInNewContext } from 'node:vm';
      setFlagsFromString('--expose-gc');
      const collect = runInNewContext('gc');
      let held;
      const share = () => getHeapStatistics().used_heap_size / getHeapStatistics().heap_size_limit;
      process.on('SIGUSR2', () => {
        if (held) { held = undefined; setImmediate(collect); }
        else for (held = []; share() < 0.76; ) held.push(new Array(1e5).fill(0.5));
      });`;
    const preload = `--import=data:text/javascript,${encodeURIComponent(ballast)}`;
    const { gateway, ...node } = await start({
      NODE_OPTIONS: `--max-old-space-size=400 ${preload}`,
    });
    const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
    gateway.child.kill('SIGUSR2');
    await expectShort(node, 'memory');
    await expectHeard(ada, bob);
    expect(await ada.ask({ type: 'join', room: 'another' }, 'joined')).toMatchObject({
      peers: [],
    });
    gateway.child.kill('SIGUSR2');
    await expectWell(node, 'memory');
  });

  const skipped = noCgroup('memory');
  test.skipIf(skipped)(`of the cgroup ${skipped || ''}`, async () => {
    const cgroup = Cgroup.open('memory')!;
    cleanUps.push(() => cgroup.close());
    const node = await start({}, cgroup.command);
    const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
    expect(await metricOf(node, 'short{resource="memory"}')).toBe(0);
    cgroup.setLimit(cgroup.used + 24 * MB);
    await expectShort(node, 'memory');
    await expectHeard(ada, bob);
    cgroup.setLimit(undefined);
    await expectWell(node, 'memory');
  });
});

describe('threads', () => {
  const skipped = noCgroup('pids');
  test.skipIf(skipped)(
    `a media worker that dies when there is no process for another is replaced later ${skipped || ''}`,
    async () => {
      const cgroup = Cgroup.open('pids')!;
      cleanUps.push(() => cgroup.close());
      const { gateway, ...node } = await start({}, cgroup.command);
      const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
      cgroup.setLimit(cgroup.used + 4);
      await expectShort(node, 'threads');
      expect(await metricOf(node, 'shortages_total{resource="threads"}')).toBe(0);
      cgroup.setLimit(1);
      process.kill(await gateway.descendantPid('mediasoup-worke'), 'SIGKILL');
      await eventually('it is said', () => gateway.logged('media worker not replaced').length > 0);
      await untilMetric(node, 'media_workers', 0);
      expect(await metricOf(node, 'shortages_total{resource="threads"}')).toBeGreaterThan(0);
      await expectHeard(ada, bob);
      cgroup.setLimit(undefined);
      await untilMetric(node, 'media_workers', 1);
      await expectWell(node, 'threads');
      await expectHeard(ada, bob);
    },
  );
});

test('a media worker without descriptors: rooms open on another, and when none has any that is told as overload', async () => {
  const node = await openGateway({ MEDIA_WORKERS: '2' }, TIMINGS);
  const [first, second] = node.mediaWorkerPids();
  const limit = (pid: number | undefined, files: number) =>
    execFileSync('prlimit', ['--pid', String(pid), `--nofile=${files}:`]);
  const rooms = Array.from({ length: 6 }, (_, room) => `room ${room}`);
  const client = await enter(node, 'ada');
  const ask = (room: string, answer: 'joined' | 'error') =>
    client.ask({ type: 'join', room, id: room }, answer);
  limit(first, 3);
  for (const room of rooms) expect(await ask(room, 'joined')).toMatchObject({ room });
  limit(second, 3);
  const refusal = { code: 'overloaded', reply_to: 'late', retry_after_ms: 5000 };
  expect(await ask('late', 'error')).toMatchObject(refusal);
  await expectShort(node, 'descriptors');
  for (const pid of [first, second]) limit(pid, 1024);
  expect(await ask('late', 'joined')).toMatchObject({ room: 'late' });
  await expectWell(node, 'descriptors');
});

test('ports of pipes: rooms that have one go on, and one that has none gets one when another is given back', async () => {
  const ports = 8;
  const first = 31_000 + (process.pid % 80) * ports;
  const range = { PIPE_PORT_MIN: String(first), PIPE_PORT_MAX: String(first + ports - 1) };
  const nodes = await openNodes(2, range, undefined, { ...TIMINGS, pipes: { retryAfterMs: 100 } });
  const [here, there] = [nodes[0]!, nodes[1]!];
  const pairs: [TestClient, TestClient][] = [];
  // Each node takes a port for each room, of those that both share.
  for (let room = 0; room < ports / 2; room += 1) {
    const query = { room: `room ${room}` };
    pairs.push([await enter(here, `ada ${room}`, query), await enter(there, `bob ${room}`, query)]);
  }
  const untilPiped = async () => {
    // The first frames of a speaker wait 400 ms at most for another node.
    for (const node of nodes) await untilMetric(node, 'pipes', ports / 2);
  };
  await untilPiped();
  const waiting = await enter(here, 'cem', { room: 'one too many' });
  const other = await enter(there, 'dan', { room: 'one too many' });
  await expectShort(here, 'ports');
  await expectHeard(...pairs[0]!);
  // Given back; the room that had none takes them.
  for (const client of pairs.pop()!) await client.close();
  await expectWell(here, 'ports');
  await untilPiped();
  await expectHeard(waiting, other);
  expect(await metricOf(here, 'shortages_total{resource="ports"}')).toBeGreaterThan(0);
});

test("memory of an operator's Redis (maxmemory): calls go on, nobody comes in, and all is well afterwards", async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const node = await openGateway({ REDIS_URL: redis.url }, TIMINGS);
  const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];
  const limitTo = (bytes: string) => store.run((client) => client.configSet('maxmemory', bytes));
  await limitTo('1');
  const refused = await connect(node, { peer: 'newcomer' });
  expect(await refused.next('error')).toMatchObject({ code: 'overloaded', retryable: true });
  await expectHeard(ada, bob);
  expect(await ada.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });
  expect(await bob.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });
  await expectHeard(bob, ada);
  await untilMetric(node, 'redis_up', 0);
  await limitTo('0');
  await untilMetric(node, 'redis_up', 1);
  await enter(node, 'newcomer', { room: 'another' });
});

describe('disk', () => {
  const mount = (path: string) =>
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', path]);
  const unmount = (path: string) => execFileSync('umount', ['--lazy', path]);
  const canMount = () => {
    const path = mkdtempSync(join(tmpdir(), 'partyline-disk-'));
    try {
      mount(path);
      unmount(path);
      return true;
    } catch {
      // Only root may.
      return false;
    } finally {
      rmSync(path, { recursive: true });
    }
  };
  /** Writes until nothing more goes on the disk. */
  const fill = (path: string) => {
    const file = openSync(path, 'w');
    for (let size = 1 << 20; size > 0; size = size > 1 ? size >> 4 : 0) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size));
      } catch {
        // ENOSPC; a smaller piece may go.
      }
    }
    closeSync(file);
  };

  test.skipIf(!canMount())(
    'full of data and log: calls go on, nobody comes in, and nothing is broken afterwards (needs to mount a tmpfs)',
    async () => {
      const disk = await mkdtemp(join(tmpdir(), 'partyline-disk-'));
      mount(disk);
      cleanUps.push(async () => {
        unmount(disk);
        await rm(disk, { recursive: true });
      });
      const log = join(disk, 'log');
      const toLog = ['sh', '-c', `exec "$@" >> ${log}`, 'sh'];
      const settings = { USAGE_WORKERS: '0', ...timingsOf(TIMINGS) };
      const gateway = await GatewayProcess.start(settings, join(disk, 'data'), toLog);
      cleanUps.push(() => gateway.dispose());
      const readyLine = () =>
        /^ready (.*)$/m.exec(existsSync(log) ? readFileSync(log, 'utf8') : '')?.[1];
      await eventually('it is ready', () => readyLine() !== undefined);
      const { url, api_key: apiKey } = JSON.parse(readyLine()!) as { url: string; api_key: string };
      const node = { url, apiKey };
      const [ada, bob] = [await enter(node, 'ada'), await enter(node, 'bob')];

      fill(join(disk, 'ballast'));
      await expectShort(node, 'disk');
      // More than fits into the page in which Redis's file ends: until that is full, Redis notices
      // nothing.
      const names = Array.from({ length: 100 }, (_, i) => String(i).padStart(100, 'x'));
      ada.send({ type: 'configure', volume: Object.fromEntries(names.map((name) => [name, 2])) });
      await untilMetric(node, 'redis_up', 0);
      await expectHeard(ada, bob);
      expect(await ada.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });
      expect(await bob.ask({ type: 'join', room: 'b' }, 'joined')).toMatchObject({ room: 'b' });
      await expectHeard(bob, ada);
      expect(await metricOf(node, 'shortages_total{resource="disk"}')).toBeGreaterThan(0);
      const logged = readFileSync(log).length;

      rmSync(join(disk, 'ballast'));
      await expectWell(node, 'disk');
      expect(await metricOf(node, 'redis_up')).toBe(1);
      await eventually('the log goes on', () => readFileSync(log).length > logged);
      const lines = readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line.startsWith('{'));
      expect(() => lines.map((line) => JSON.parse(line) as unknown)).not.toThrow();
      expect(gateway.child.exitCode).toBe(null);
    },
  );
});
