import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test, vi } from 'vitest';
import { timingsWith } from '../../../config/timings.ts';
import { LastUsage } from '../../../src/usage/last-usage.ts';
import { Meter, type MinuteCount } from '../../../src/usage/meter.ts';
import { UsageReporter } from '../../../src/usage/usage-reporter.ts';
import type { UsageStore } from '../../../src/usage/usage-store.ts';
import { silentLog } from '../../support/gateway.ts';
import { count, LONGEST_STEP_MS, NOW_MS } from '../../support/usage.ts';

const { usage: timings } = timingsWith({ usage: { lastWriteMs: 50, retryLastMs: 1 } });
/** For stores that take what is written in the end: the disk may be slow. */
const { usage: longTimings } = timingsWith({ usage: { lastWriteMs: 30_000, retryLastMs: 1 } });
const COUNTS = [count({}), count({ room: 'b', webrtcMs: 500 })];
const HOUR_MS = 3_600_000;

const cleanUps: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  vi.restoreAllMocks();
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-last-usage-'));
  cleanUps.push(() => rm(folder, { recursive: true }));
  return join(folder, 'data');
}

/** A store that refuses its first writes. */
function refusing(times: number) {
  const written: MinuteCount[] = [];
  const write = vi.fn<UsageStore['write']>((counts) => {
    if (write.mock.calls.length <= times) return Promise.reject(new Error('disconnected'));
    written.push(...counts);
    return Promise.resolve();
  });
  return { isReady: true, write, written };
}

const lastOf = (store: Pick<UsageStore, 'write'>, folder: string, limits = timings) =>
  new LastUsage(store, folder, silentLog, limits);

const filesIn = (folder: string) => readdir(folder).catch(() => []);

test('LastUsage.write() to a store that takes it leaves no file', async () => {
  const folder = await newFolder();
  const store = refusing(0);
  await lastOf(store, folder).write(COUNTS);
  expect(store.written).toEqual(COUNTS);
  expect(await filesIn(folder)).toEqual([]);
});

test('LastUsage.write() to a store that fails three times repeats, with a file meanwhile', async () => {
  const folder = await newFolder();
  const store = refusing(3);
  const filesAtWrites: number[] = [];
  const write: UsageStore['write'] = async (counts) => {
    filesAtWrites.push((await filesIn(folder)).length);
    await store.write(counts);
  };
  await lastOf({ write }, folder, longTimings).write(COUNTS);
  expect(store.written).toEqual(COUNTS);
  expect(filesAtWrites).toEqual([0, 1, 1, 1]);
  expect(await filesIn(folder)).toEqual([]);
});

test('LastUsage.write() to a store that has just failed leaves the file first, and removes it', async () => {
  const folder = await newFolder();
  const filesAtWrites: number[] = [];
  const write: UsageStore['write'] = async () => {
    filesAtWrites.push((await filesIn(folder)).length);
  };
  await lastOf({ write }, folder).write(COUNTS, false);
  expect(filesAtWrites).toEqual([1]);
  expect(await filesIn(folder)).toEqual([]);
});

test('UsageReporter.close() after a write that failed leaves the file before it writes again', async () => {
  const folder = await newFolder();
  let clockMs = NOW_MS;
  const clock = { wallMs: () => clockMs, monotonicMs: () => clockMs };
  const meter = new Meter(clock, LONGEST_STEP_MS);
  const filesAtWrites: number[] = [];
  const write: UsageStore['write'] = async () => {
    filesAtWrites.push((await filesIn(folder)).length);
    throw new Error('not answered');
  };
  const store = { isReady: true, write } as unknown as UsageStore;
  const parts = { meter, store, last: lastOf(store, folder), clock };
  const reporter = new UsageReporter(parts, silentLog, () => {}, timings);
  meter.enter(1, 'a', 'websocket');
  clockMs += 1000;
  await reporter.report();
  await reporter.close();
  expect(filesAtWrites.slice(0, 2)).toEqual([0, 1]);
});

test('LastUsage.write() to a store that never takes it leaves a file, which the next start writes', async () => {
  const folder = await newFolder();
  const warn = vi.spyOn(silentLog, 'warn');
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  const [name, ...others] = await filesIn(folder);
  expect(others).toEqual([]);
  const file = join(folder, name!);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(warn).toHaveBeenLastCalledWith(
    { file, peerSeconds: 120.5 },
    'last usage left to the next start',
  );

  await lastOf(refusing(1), folder).writeLeft(NOW_MS);
  expect(await filesIn(folder)).toEqual([name]);
  const store = refusing(0);
  await lastOf(store, folder).writeLeft(NOW_MS);
  expect(store.written).toEqual(COUNTS);
  expect(await filesIn(folder)).toEqual([]);
});

test('LastUsage.write() without store and folder logs what is lost', async () => {
  const folder = await newFolder();
  await writeFile(folder, 'a file in place of the folder');
  const error = vi.spyOn(silentLog, 'error');
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  expect(error).toHaveBeenLastCalledWith({ peerSeconds: 120.5 }, 'last usage lost');
  expect(await readFile(folder, 'utf8')).toBe('a file in place of the folder');
});

test('LastUsage.writeLeft() two days later writes nothing, because Redis may count it twice', async () => {
  const folder = await newFolder();
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  const error = vi.spyOn(silentLog, 'error');
  const store = refusing(0);
  await lastOf(store, folder).writeLeft(NOW_MS + 48 * HOUR_MS);
  expect(store.written).toEqual([]);
  const message = 'usage lost: older than 47 hours';
  expect(error).toHaveBeenLastCalledWith(expect.objectContaining({ peerSeconds: 120.5 }), message);
  expect(await filesIn(folder)).toEqual([]);
});

test('UsageReporter.report() writes a file that the store did not take at the start, though no peer has come', async () => {
  const folder = await newFolder();
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  const store = refusing(2);
  const last = lastOf(store, folder);
  const warn = vi.spyOn(silentLog, 'warn');
  await last.writeLeft(NOW_MS);
  const clock = { wallMs: () => NOW_MS, monotonicMs: () => NOW_MS };
  // The report itself has nothing to write: the store, which counts calls, is asked only for the
  // file.
  const asked = {
    isReady: true,
    write: (counts: MinuteCount[]) => (counts.length > 0 ? store.write(counts) : undefined),
  };
  const parts = {
    meter: new Meter(clock, LONGEST_STEP_MS),
    store: asked as unknown as UsageStore,
    last,
    clock,
  };
  const reporter = new UsageReporter(parts, silentLog, () => {}, timings);
  await reporter.report();
  expect(warn).toHaveBeenCalledTimes(2);
  expect(warn).toHaveBeenLastCalledWith(
    expect.objectContaining({ peerSeconds: 120.5 }),
    'usage of an earlier process not written; retrying',
  );
  expect(await filesIn(folder)).toHaveLength(1);
  await reporter.report();
  expect(store.written).toEqual(COUNTS);
  expect(await filesIn(folder)).toEqual([]);
  await reporter.report();
  expect(store.write).toHaveBeenCalledTimes(3);
  await reporter.close();
});

test('LastUsage.writeLeft() keeps a file that it cannot read, and writes the others', async () => {
  const folder = await newFolder();
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  const damaged = `unwritten-usage-${crypto.randomUUID()}.json`;
  await writeFile(join(folder, damaged), '[{"room":"a"}]');
  await writeFile(join(folder, 'demo-key'), 'pl_1');
  const store = refusing(0);
  const last = lastOf(store, folder);
  await last.writeLeft(NOW_MS);
  expect(last.hasLeft).toBe(false);
  expect(store.written).toEqual(COUNTS);
  expect(new Set(await filesIn(folder))).toEqual(new Set(['demo-key', damaged]));
});

test('UsageReporter.close() while the store fails repeats until all minutes since are written', async () => {
  const folder = await newFolder();
  let clockMs = NOW_MS;
  const clock = { wallMs: () => clockMs, monotonicMs: () => clockMs };
  const meter = new Meter(clock, LONGEST_STEP_MS);
  const store = refusing(4);
  const parts = {
    meter,
    store: store as unknown as UsageStore,
    last: lastOf(store, folder, longTimings),
    clock,
  };
  const reporter = new UsageReporter(parts, silentLog, () => {}, timings);
  const leave = meter.enter(1, 'a', 'websocket');
  for (const minute of [1, 2]) {
    clockMs = NOW_MS + minute * 30_000;
    await reporter.report();
  }
  leave();
  await reporter.close();
  expect(store.written.map(({ websocketMs }) => websocketMs)).toEqual([60_000]);
  expect(await filesIn(folder)).toEqual([]);
});

test('LastUsage.writeLeft() of two processes at once: neither reports the file that the other has removed', async () => {
  const folder = await newFolder();
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  await lastOf(refusing(Infinity), folder).write(COUNTS);
  expect(await filesIn(folder)).toHaveLength(2);
  const error = vi.spyOn(silentLog, 'error');
  const store = refusing(0);
  /** The first file that is written takes the other with it, as the other process would. */
  const write: UsageStore['write'] = async (counts) => {
    await store.write(counts);
    for (const name of await filesIn(folder)) await rm(join(folder, name));
  };
  await lastOf({ write }, folder).writeLeft(NOW_MS);
  expect(store.written).toEqual(COUNTS);
  expect(error).not.toHaveBeenCalled();
});
