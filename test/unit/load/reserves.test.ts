import { closeSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { DEFAULT_TIMINGS } from '../../../config/timings.ts';
import { counters } from '../../../src/counters.ts';
import { cgroupMeter } from '../../../src/load/cgroup.ts';
import { Reserves, type Supply } from '../../../src/load/reserves.ts';
import {
  shareOf,
  type SupplySources,
  suppliesOf,
  usageOfMachine,
} from '../../../src/load/supplies.ts';
import { PartylineError } from '../../../src/protocol/errors.ts';
import { noteShortage, type Resource, resourceOf, RESOURCES } from '../../../src/resources.ts';
import { silentLog } from '../../support/gateway.ts';

const SAMPLE_MS = DEFAULT_TIMINGS.load.sampleEveryMs;
const NO_FAULTS = { descriptors: 0, memory: 0, threads: 0, ports: 0, disk: 0 };
/** Sources of a process that has nothing open. */
const NOTHING: SupplySources = {
  onFreeDescriptors: () => {},
  mediaWorkerPids: () => [],
  rtc: { countTaken: () => 0, ports: 1 },
  pipes: { count: () => 0, ports: 10 },
  rooms: { count: () => 0, ports: 20 },
  dataDir: undefined,
};
const fault = (code: string, syscall?: string) => Object.assign(new Error(code), { code, syscall });

describe('Reserves', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  const supplyOf = (resource: Resource, measure: Supply['measure']): Supply => ({
    resource,
    name: 'made up',
    measure,
    reserveOf: shareOf(0.1, 32, 512),
  });
  const open = (supplies: Supply[], faults = { ...NO_FAULTS }) =>
    new Reserves(silentLog, DEFAULT_TIMINGS.load, supplies, faults);

  test('lets in as many as leave the reserve, and nobody when that is touched', () => {
    let used = 50;
    const free: number[] = [];
    const measure = () => ({ used, limit: 160 });
    const onFree = (count: number) => void free.push(count);
    const reserves = open([{ ...supplyOf('descriptors', measure), onFree }]);
    const after = (count: number) => {
      used = count;
      vi.advanceTimersByTime(SAMPLE_MS);
      return reserves.isShort;
    };
    expect([after(50), after(128), after(129), after(120), after(112), after(128)]).toEqual([
      false,
      false,
      true,
      true,
      false,
      false,
    ]);
    expect(free).toEqual([78, 0, -1, 8, 16, 0]);
    reserves.check();
    after(160);
    expect(() => reserves.check()).toThrow(
      expect.objectContaining({ code: 'overloaded', retryAfterMs: 5000 }),
    );
    reserves.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  test('is short of what any of its supplies is short of, and tells the least share that is free', () => {
    let used = 0;
    const reserves = open([
      supplyOf('memory', () => ({ used: 0, limit: 1000 })),
      supplyOf('memory', () => ({ used, limit: 2000 })),
      supplyOf('threads', () => undefined),
      supplyOf('disk', () => ({ used: 5, limit: Infinity })),
    ]);
    reserves.sample();
    expect(reserves.describe()).toMatchObject({
      memory: { isShort: false, freeShare: 1 },
      threads: { isShort: false, freeShare: undefined },
      disk: { isShort: false, freeShare: undefined },
    });
    used = 1900;
    reserves.sample();
    expect(reserves.describe().memory).toEqual({ isShort: true, freeShare: 0.05 });
    expect(() => reserves.check()).toThrow('memory');
    reserves.close();
  });

  test.each(RESOURCES)(
    'after a fault that says that %s ran out it is short for 10 s',
    (resource) => {
      const faults = { ...NO_FAULTS };
      const reserves = open([], faults);
      faults[resource] += 1;
      reserves.sample();
      expect(reserves.describe()[resource].isShort).toBe(true);
      vi.advanceTimersByTime(5000);
      faults[resource] += 1;
      vi.advanceTimersByTime(10_000);
      expect(reserves.isShort).toBe(true);
      vi.advanceTimersByTime(2000);
      expect(reserves.isShort).toBe(false);
      reserves.close();
    },
  );

  test('judges by what it saw last while it cannot look', () => {
    const looks = [
      { used: 150, limit: 160 },
      { used: 10, limit: 160 },
    ];
    let mayLook = true;
    const reserves = open([
      supplyOf('descriptors', () => {
        if (!mayLook) throw fault('EMFILE');
        return looks.shift();
      }),
    ]);
    const isShortAfter = (look: boolean) => {
      mayLook = look;
      reserves.sample();
      return reserves.isShort;
    };
    expect([true, false, true].map(isShortAfter)).toEqual([true, true, false]);
    reserves.close();
  });
});

describe('resourceOf()', () => {
  test.each([
    [fault('EMFILE'), 'descriptors'],
    [fault('ENFILE'), 'descriptors'],
    [fault('ENOMEM', 'spawn setpriv'), 'memory'],
    [fault('EAGAIN', 'spawn setpriv'), 'threads'],
    [fault('ERR_WORKER_INIT_FAILED'), 'threads'],
    [new Error('spawn own-session.sh EAGAIN'), 'threads'],
    [
      new Error(
        'A system error occurred: uv_interface_addresses returned Unknown system error 24 (Unknown system error 24)',
      ),
      'descriptors',
    ],
    [fault('ENOSPC'), 'disk'],
    [new Error('MISCONF Errors writing to the AOF file: No space left on device'), 'disk'],
    [new Error("no more available ports [protocol:udp, ip:'127.0.0.1', numAttempt:10]"), 'ports'],
    [new Error('port bind failed due to too many open files [protocol:udp]'), 'descriptors'],
    [new Error('a room cannot be opened', { cause: fault('EMFILE') }), 'descriptors'],
    [fault('EAGAIN', 'write'), undefined],
    [new Error('not MISCONF'), undefined],
    ['EMFILE', undefined],
  ])('%s', (thrown, resource) => {
    expect(resourceOf(thrown)).toBe(resource);
    const before = { ...counters.shortages };
    noteShortage(thrown);
    const more = RESOURCES.filter((name) => counters.shortages[name] > before[name]);
    expect(more).toEqual(resource ? [resource] : []);
    const error = PartylineError.from(thrown);
    expect(error.code).toBe(resource ? 'overloaded' : 'internal_error');
    expect(error.retryAfterMs).toBe(resource && 5000);
  });

  test('ends where causes go round', () => {
    const one = new Error('one');
    one.cause = new Error('other', { cause: one });
    expect(resourceOf(one)).toBe(undefined);
  });
});

describe('cgroupMeter()', () => {
  let folder: string;
  beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), 'partyline-cgroup-'))));
  afterEach(() => rm(folder, { recursive: true }));

  const paths = () => ({ ofProcess: join(folder, 'cgroup'), root: folder });
  const write = async (name: string, files: Record<string, string>) => {
    await mkdir(join(folder, name), { recursive: true });
    for (const [file, text] of Object.entries(files)) {
      await writeFile(join(folder, name, file), `${text}\n`);
    }
  };

  test('version 2: takes the tightest of the bounds above, less what the kernel would take back', async () => {
    await write('', { cgroup: '0::/pod/gateway' });
    await write('pod', {
      'memory.max': '1000',
      'memory.current': '900',
      'memory.stat': 'anon 500\ninactive_file 100\nactive_file 50\nslab_reclaimable 10',
    });
    await write('pod/gateway', {
      'memory.max': 'max',
      'memory.current': '700',
      'memory.stat': '',
      'pids.max': '100',
      'pids.current': '90',
    });
    const memory = cgroupMeter('memory', paths());
    expect(memory()).toEqual({ used: 740, limit: 1000 });
    expect(cgroupMeter('pids', paths())()).toEqual({ used: 90, limit: 100 });
    await write('pod/gateway', { 'memory.max': '800' });
    expect(memory()).toEqual({ used: 700, limit: 800 });
    await write('pod/gateway', { 'memory.max': 'max' });
    await write('pod', { 'memory.max': 'max' });
    expect(memory()).toBe(undefined);
  });

  test('version 1: a controller has a folder of its own, and says that nothing bounds it by a number', async () => {
    await write('', { cgroup: '9:name=systemd:/\n4:memory:/gateway\n3:cpu,pids:/\n0::/' });
    await write('memory', { 'memory.limit_in_bytes': '9223372036854771712' });
    await write('memory/gateway', {
      'memory.limit_in_bytes': '1000',
      'memory.usage_in_bytes': '950',
      'memory.stat': 'inactive_file 1\ntotal_inactive_file 200\ntotal_active_file 100',
    });
    const memory = cgroupMeter('memory', paths());
    expect(memory()).toEqual({ used: 650, limit: 1000 });
    await write('memory/gateway', { 'memory.limit_in_bytes': '9223372036854771712' });
    expect(memory()).toBe(undefined);
    expect(cgroupMeter('pids', paths())()).toBe(undefined);
  });

  test('in a container the cgroup is at the top, whatever its path', async () => {
    await write('', { cgroup: '0::/../outside' });
    await write('', { 'memory.max': '1000', 'memory.current': '100' });
    expect(cgroupMeter('memory', paths())()).toEqual({ used: 100, limit: 1000 });
  });

  test('without cgroups nothing is bounded', () => {
    expect(cgroupMeter('memory', paths())()).toBe(undefined);
  });
});

describe('usageOfMachine()', () => {
  let folder: string;
  beforeEach(async () => (folder = await mkdtemp(join(tmpdir(), 'partyline-meminfo-'))));
  afterEach(() => rm(folder, { recursive: true }));

  const ofText = async (text: string) => {
    const path = join(folder, 'meminfo');
    await writeFile(path, text);
    return usageOfMachine(path);
  };
  const meminfo = (totalKb: number, availableKb: number) =>
    `MemTotal:       ${totalKb} kB\nMemFree:          10 kB\nMemAvailable:   ${availableKb} kB\nSwapFree:  99 kB\n`;

  test('counts what the kernel would take back as free, and no swap', async () => {
    expect(await ofText(meminfo(1000, 400))).toEqual({ used: 600 * 1024, limit: 1000 * 1024 });
    expect(await ofText(meminfo(1000, 1001))).toEqual({ used: 0, limit: 1000 * 1024 });
  });

  test('is undefined where the kernel does not tell it', async () => {
    expect(await ofText('MemTotal:       1000 kB\nMemFree:         400 kB\n')).toBe(undefined);
    expect(await ofText('MemAvailable:   1000 kB\n')).toBe(undefined);
    expect(usageOfMachine(join(folder, 'none'))).toBe(undefined);
  });

  test.each([
    // Total and available memory, MB.
    [1000, 300, false],
    [1000, 60, false],
    [1000, 45, true],
    [500, 100, false],
    [500, 30, true],
    [64_000, 300, false],
    [64_000, 250, true],
  ])('of a machine of %i MB with %i MB available: short is %s', (total, available, isShort) => {
    const usage = { used: (total - available) * 1e6, limit: total * 1e6 };
    const machine = suppliesOf(NOTHING).find(({ name }) => name === 'machine')!;
    const reserves = new Reserves(
      silentLog,
      DEFAULT_TIMINGS.load,
      [{ ...machine, measure: () => usage }],
      { ...NO_FAULTS },
    );
    reserves.sample();
    reserves.close();
    expect(reserves.describe().memory.isShort).toBe(isShort);
  });
});

test('suppliesOf() measures this process: what it opens is counted', () => {
  const supplies = suppliesOf({
    onFreeDescriptors: () => {},
    mediaWorkerPids: () => [process.pid, 0],
    rtc: { countTaken: () => 1, ports: 3 },
    pipes: { count: () => 3, ports: 10 },
    rooms: { count: () => 4, ports: 20 },
    dataDir: tmpdir(),
  });
  const measure = (index: number) => supplies[index]!.measure()!;
  const before = measure(0);
  const files = Array.from({ length: 10 }, () => openSync('/dev/null', 'r'));
  const after = measure(0);
  for (const file of files) closeSync(file);
  // Other files of this process may be closed meanwhile.
  expect(after.used - before.used).toBeGreaterThanOrEqual(5);
  expect(supplies.filter(({ resource }) => resource === 'memory').map(({ name }) => name)).toEqual([
    'heap',
    'cgroup',
    'machine',
  ]);
  const usages = supplies.map(({ resource, name, measure: look }) => ({
    name: `${resource}: ${name}`,
    usage: look(),
  }));
  expect(usages).toContainEqual({ name: 'ports: pipes', usage: { used: 3, limit: 10 } });
  expect(usages).toContainEqual({ name: 'ports: WebRTC', usage: { used: 1, limit: 3 } });
  expect(usages).toContainEqual({ name: 'ports: rooms', usage: { used: 4, limit: 20 } });
  for (const { name, usage } of usages) {
    if (!usage) continue;
    expect({ name, isSane: usage.used >= 0 && usage.used < usage.limit }).toEqual({
      name,
      isSane: true,
    });
  }
  expect(new Set(supplies.map(({ resource }) => resource))).toEqual(new Set(RESOURCES));
  expect([160, 1024, 65_536].map(supplies[0]!.reserveOf)).toEqual([32, 102, 512]);
});

test.each([
  [0, 2, 0],
  // One is down for another reason: it is replaced soon.
  [0, 1, 0],
  [1, 1, 1],
  [1, 0, 2],
  [2, 0, 2],
])(
  'WebRTC ports: while %i of two media workers lack theirs and %i run, %i are used',
  (lacking, running, used) => {
    const supplies = suppliesOf({
      onFreeDescriptors: () => {},
      mediaWorkerPids: () => Array.from({ length: running }, () => process.pid),
      rtc: { countTaken: () => lacking, ports: 2 },
      pipes: { count: () => 0, ports: 10 },
      rooms: { count: () => 0, ports: 20 },
      dataDir: undefined,
    });
    const ports = supplies.find(({ name }) => name === 'WebRTC')!;
    expect(ports.measure()).toEqual({ used, limit: 2 });
  },
);
