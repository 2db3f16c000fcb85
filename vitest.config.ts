import { defineConfig } from 'vitest/config';

/**
 * What plays and listens in real time is disturbed now and then where the cores are shared with others; the report names
 * what needed a second attempt. On a developer's machine nothing is tried again.
 */
const retry = process.env['CI'] ? 1 : 0;

/** These have real processes too, but listen to nothing, and wait most of the time. */
const WAITING = [
  'usage',
  'accounts',
  'webhooks',
  'webhooks-of-rooms',
  'process',
  'me',
  'redis',
  'ccu-leases',
  'bad-input',
  'operator',
  'leaving',
  'processes',
].map((name) => `test/integration/${name}.test.ts`);

/**
 * One group after the other: first what is pure, in parallel and quickly; then what waits, side by side; then what has real
 * processes and listens to sound, one file at a time, because the cores are theirs.
 */
export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          // Some compute for a second or two, on a machine that may have other things to do.
          testTimeout: 20_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'waiting',
          include: WAITING,
          sequence: { groupOrder: 1 },
          pool: 'forks',
          maxWorkers: 3,
          retry,
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: WAITING,
          sequence: { groupOrder: 2 },
          pool: 'forks',
          fileParallelism: false,
          retry,
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          sequence: { groupOrder: 3 },
          pool: 'forks',
          fileParallelism: false,
          retry,
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
