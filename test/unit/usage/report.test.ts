import { spawnSync } from 'node:child_process';
import { expect, test } from 'vitest';
import { collectReport, reportUsage } from '../../../src/usage/report.ts';
import { UsageReader } from '../../../src/usage/usage-reader.ts';
import type { Redis } from '../../../src/store/redis.ts';

const NOW_MS = Date.UTC(2026, 10, 21, 8, 30);
/** Time in which a report without records must have been read, ms. */
const LIMIT_MS = 5000;

/** Reader of an account that has used nothing, which counts the days that it reads. */
function emptyReader() {
  const days = new Set<string>();
  const empty = {
    sMembers: () => Promise.resolve([]),
    hExists: (key: string) => {
      days.add(key.slice(-10));
      return Promise.resolve(1);
    },
    hScan: () => Promise.resolve({ cursor: '0', entries: [] }),
  };
  const run = (commands: (client: typeof empty) => Promise<unknown>) => commands(empty);
  return { days, reader: new UsageReader({ run } as unknown as Redis) };
}

test.each([
  { from: '9999-12-31', to: '9999-12-31' },
  { from: '9998-12-31', to: '9999-12-31T23:59:59.999Z' },
  { from: '9999-12-31' },
  { to: '9999-01-01T00:00:00.001Z' },
])('reportUsage() for %o is refused, because minutes are compared as text', (query) => {
  const { reader } = emptyReader();
  expect(() => reportUsage(reader, 1, query, NOW_MS)).toThrow(/is later than the year 9998\.$/);
});

test('reportUsage() for the last day of the year 9998 reads that day', async () => {
  const { reader, days } = emptyReader();
  const query = { from: '9998-12-31', to: '9999-01-01' };
  expect(await collectReport(reportUsage(reader, 1, query, NOW_MS))).toMatchObject({ records: [] });
  expect([...days]).toEqual(['9998-12-31']);
});

test('UsageReader.read() ends for a range at the end of the year 9999', () => {
  // In a process of its own, which can be ended if the reader never returns.
  const program = `
    import { UsageReader } from './src/usage/usage-reader.ts';
    const reader = new UsageReader({ run: async () => { throw new Error('read'); } });
    for (const from of ['9999-12-31T00:00', '9999-12-31T23:59']) {
      await reader.read(1, { from, to: '9999-12-31T23:59' }, 'day').next().catch(() => {});
    }`;
  const child = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    timeout: LIMIT_MS,
    encoding: 'utf8',
  });
  expect(child).toMatchObject({ status: 0, stderr: '' });
});
