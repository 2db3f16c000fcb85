import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestRedis } from '../support/redis.ts';

/** The commands of docs/operations/accounts.md, run as they stand there, by a shell. */

const PROJECT = join(import.meta.dirname, '../..');
const page = readFileSync(join(PROJECT, 'docs/operations/accounts.md'), 'utf8');
const commands = [...page.matchAll(/^npm run accounts -- (.+?)(?: {2,}#.*)?$/gm)].map(
  // Reports go back a year at most.
  ([, words]) => words!.replace(/\d{4}-\d\d-\d\d/, new Date().toISOString().slice(0, 10)),
);
/** The account of the examples. */
const ACCOUNT = 7;

let redis: TestRedis;
const run = (words: string) => {
  const command = `"$0" src/accounts-cli.ts ${words}`;
  const env = { ...process.env, REDIS_URL: redis.url };
  const { status, stdout, stderr } = spawnSync('sh', ['-c', command, process.execPath], {
    cwd: PROJECT,
    env,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
};

beforeAll(async () => {
  redis = await TestRedis.start();
  for (let id = 1; id <= ACCOUNT; id += 1) {
    const { status, stderr } = run(`create --name N${id} --email a@example.com --plan pro`);
    if (status !== 0) throw new Error(stderr);
  }
});
afterAll(() => redis.kill());

test('there are commands of every kind', () => {
  expect(new Set(commands.map((words) => words.split(' ')[0]))).toEqual(
    new Set([
      'create',
      'list',
      'show',
      'set-plan',
      'suspend',
      'close',
      'set-audio',
      'usage',
      'set-webhook',
    ]),
  );
});

// Closed for good, an account takes no further change.
const inOrder = commands.toSorted(
  (one, other) => Number(one.startsWith('close')) - Number(other.startsWith('close')),
);
test.each(inOrder)('npm run accounts -- %s', (words) => {
  const { status, stdout, stderr } = run(words);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).not.toBe('');
});
