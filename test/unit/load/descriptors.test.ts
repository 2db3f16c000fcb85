import { spawn } from 'node:child_process';
import { closeSync, openSync, readdirSync, statSync } from 'node:fs';
import { expect, test } from 'vitest';
import { DescriptorCounter } from '../../../src/load/descriptors.ts';

/** Descriptors that the counting itself and other threads of the test runner may open and close. */
const OTHERS = 20;
const OPENED = 200;

/** Kernels before 6.2 do not tell the number. */
const WAYS = statSync('/proc/self/fd').size > 0 ? [true, false] : [false];

test.each(WAYS)(
  'open descriptors of this process are counted; told by the kernel: %s',
  async (told) => {
    const counter = new DescriptorCounter(told);
    const before = counter.count('self')!;
    expect(Math.abs(before - readdirSync('/proc/self/fd').length)).toBeLessThan(OTHERS);
    const opened = Array.from({ length: OPENED }, () => openSync('/dev/null', 'r'));
    const isCounted = () => Math.abs(counter.count('self')! - before - OPENED) < OTHERS;
    await expect.poll(isCounted, { interval: 10 }).toBe(true);
    for (const each of opened) closeSync(each);
  },
);

test.each(WAYS)('a process that is not there has no count; told by the kernel: %s', (told) => {
  expect(new DescriptorCounter(told).count(2 ** 22 + 1)).toBeUndefined();
});

test('a process that ends between two counts has none afterwards', async () => {
  const counter = new DescriptorCounter(false);
  const child = spawn('cat', { stdio: ['pipe', 'ignore', 'ignore'] });
  expect(counter.count(child.pid!)).toBeGreaterThanOrEqual(3);
  child.stdin.end();
  await expect.poll(() => counter.count(child.pid!), { interval: 10 }).toBeUndefined();
});
