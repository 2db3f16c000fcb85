import { expect, test } from 'vitest';
import { residentBytesOf, WORKER_MEMORY, WorkerMemory } from '../../../src/media/worker-memory.ts';

const MIB = 1024 * 1024;
const NONE = { routers: 0, transports: 0, consumers: 0 };

test('a growth is looked into for a while, and slow growth as a fast one', () => {
  const memory = new WorkerMemory(15_000);
  const judge = (mib: number, second: number) => memory.judge(mib * MIB, NONE, second * 1000);
  expect(judge(14, 0)).toBe('usual');
  expect(judge(29, 1)).toBe('usual');
  expect(judge(30, 2)).toBe('grows');
  expect(judge(40, 16)).toBe('grows');
  expect(judge(40, 17)).toBe('usual');
  for (let second = 18; second < 40; second += 1) expect(judge(40, second)).toBe('usual');
  // Memory that was given back may be taken again.
  expect(judge(20, 40)).toBe('usual');
  for (let mib = 21; mib < 36; mib += 1) expect(judge(mib, mib * 60)).toBe('usual');
  expect(judge(36, 36 * 60)).toBe('grows');
});

test('a media worker is ended that takes far more than its parts do', () => {
  const { base, router, transport, consumer } = WORKER_MEMORY;
  expect(new WorkerMemory(15_000).judge(base, NONE, 0)).toBe('usual');
  expect(new WorkerMemory(15_000).judge(base + 1, NONE, 0)).toBe('exceeded');
  const parts = { routers: 2, transports: 3, consumers: 5 };
  const most = base + 2 * router + 3 * transport + 5 * consumer;
  expect(new WorkerMemory(15_000).judge(most, parts, 0)).toBe('usual');
  expect(new WorkerMemory(15_000).judge(most + 1, parts, 0)).toBe('exceeded');
});

test('the memory of a process that has ended is not known', () => {
  expect(residentBytesOf(process.pid)).toBeGreaterThan(10 * MIB);
  expect(residentBytesOf(2 ** 22 + 1)).toBeUndefined();
});
