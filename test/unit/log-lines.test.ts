import { closeSync, openSync, writeSync } from 'node:fs';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { counters } from '../../src/counters.ts';
import { LogLines } from '../../src/log-lines.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A disk that takes `free` more bytes. */
function openDisk(free: number) {
  const disk = { free, text: '' };
  const lines = new LogLines((bytes) => {
    if (disk.free === 0) throw Object.assign(new Error('write'), { code: 'ENOSPC' });
    const written = bytes.subarray(0, disk.free);
    disk.free -= written.length;
    disk.text += written.toString();
    return written.length;
  });
  return { disk, lines };
}

test('a line for which the disk has no room is written when it has, in its turn and whole', () => {
  const { disk, lines } = openDisk(10);
  const before = counters.shortages.disk;
  for (const line of ['first\n', 'second\n', 'third\n']) lines.write(line);
  expect(disk.text).toBe('first\nseco');
  expect(counters.shortages.disk).toBeGreaterThan(before);
  disk.free = 100;
  vi.advanceTimersByTime(500);
  expect(disk.text).toBe('first\nsecond\nthird\n');
  lines.write('fourth\n');
  expect(disk.text).toBe('first\nsecond\nthird\nfourth\n');
  expect(vi.getTimerCount()).toBe(0);
});

test('the exit of the process is listened to only while lines are held, which are written then', () => {
  const before = process.listeners('exit');
  const logs = Array.from({ length: 20 }, () => openDisk(10));
  for (const { lines } of logs) lines.write('written\n');
  expect(process.listeners('exit')).toEqual(before);
  const [first] = logs;
  first!.lines.write('held\n');
  first!.lines.write('held too\n');
  const [atExit, ...more] = process.listeners('exit').filter((each) => !before.includes(each));
  expect(more).toEqual([]);
  first!.disk.free = 100;
  atExit!(0);
  expect(first!.disk.text).toBe('written\nheld\nheld too\n');
  expect(process.listeners('exit')).toEqual(before);
  expect(vi.getTimerCount()).toBe(0);
});

test('of a disk that stays full 256 KB of lines are kept, and the number of the others is told', () => {
  const { disk, lines } = openDisk(0);
  const before = counters.logLinesLost;
  const line = `${'x'.repeat(1023)}\n`;
  for (let count = 0; count < 300; count += 1) lines.write(line);
  expect(counters.logLinesLost - before).toBe(300 - 256);
  disk.free = 1e6;
  lines.write('last\n');
  const written = disk.text.split('\n');
  expect(written.filter((each) => each.length === 1023)).toHaveLength(256);
  const told = JSON.parse(written.find((each) => each.startsWith('{'))!) as object;
  expect(told).toMatchObject({ level: 40, lines: 44, msg: 'log lines were lost' });
});

test('a full device throws at nobody', () => {
  const full = openSync('/dev/full', 'w');
  const lines = new LogLines((bytes) => writeSync(full, bytes));
  const before = counters.shortages.disk;
  lines.write('nobody reads this\n');
  expect(counters.shortages.disk).toBe(before + 1);
  closeSync(full);
});
