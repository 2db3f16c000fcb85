import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { findTrim, MemoryTrim } from '../../../src/load/memory-trim.ts';

const MODULE = fileURLToPath(new URL('../../../src/load/memory-trim.ts', import.meta.url));
const EVERY_MS = 5000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Trims that take a time, and the times at which they began, s. */
function watchTrims(isShort: () => boolean, tookMs: number) {
  const beganS: number[] = [];
  const since = performance.now();
  const trim = new MemoryTrim(isShort, { trimEveryMs: EVERY_MS }, (onDone) => {
    beganS.push((performance.now() - since) / 1000);
    setTimeout(onDone, tookMs);
  });
  return { beganS, trim };
}

test('memory is given back at intervals while it is short, and not before or after', () => {
  let isShort = false;
  const { beganS, trim } = watchTrims(() => isShort, 0);
  vi.advanceTimersByTime(12_000);
  isShort = true;
  vi.advanceTimersByTime(10_000);
  isShort = false;
  vi.advanceTimersByTime(20_000);
  expect(beganS).toEqual([15, 20]);
  trim.close();
  expect(vi.getTimerCount()).toBe(0);
});

test('it takes no more than a thousandth of the time, and one at a time', () => {
  const { beganS, trim } = watchTrims(() => true, 30);
  vi.advanceTimersByTime(80_000);
  expect(beganS).toEqual([5, 40, 75]);
  trim.close();
  const slow = watchTrims(() => true, 60_000);
  vi.advanceTimersByTime(59_000);
  expect(slow.beganS).toEqual([5]);
  slow.trim.close();
});

test('a C library that has no malloc_trim is left alone', () => {
  const onDone = vi.fn<() => void>();
  findTrim('no_such_function')(onDone);
  expect(onDone).toHaveBeenCalledOnce();
});

/** True if the C library is glibc: musl gives back memory by itself. */
const isGlibc = 'glibcVersionRuntime' in (process.report.getReport() as { header: object }).header;

/** Drops 100,000 frames, of 50 MB, and prints by how much the resident memory falls, MB. */
const PROGRAM = `import { setTimeout as delay } from 'node:timers/promises';
  import { findTrim } from '${MODULE}';
  const memoryMb = () => process.memoryUsage.rss() / 1e6;
  let frames = Array.from({ length: 100_000 }, () => Buffer.allocUnsafeSlow(500).fill(1));
  frames = undefined;
  gc();
  await delay(200);
  gc();
  const beforeMb = memoryMb();
  const trim = findTrim();
  while (memoryMb() > beforeMb - 25) {
    await new Promise((resolve) => trim(resolve));
    await delay(100);
  }
  console.log(beforeMb - memoryMb());`;

test.runIf(isGlibc)('the memory of small frames that were dropped goes back to the kernel', () => {
  const options = ['--expose-gc', '--input-type=module', '--eval', PROGRAM];
  const { stdout, stderr } = spawnSync(process.execPath, options, { timeout: 30_000 });
  expect(stderr.toString()).toBe('');
  expect(Number(stdout.toString())).toBeGreaterThan(25);
});
