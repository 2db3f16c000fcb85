import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandsOf } from '../support/page-commands.ts';
import { TestRedis } from '../support/redis.ts';

/** The commands of docs/operations/accounts.md, run as they stand there, by a shell. */

const PROJECT = join(import.meta.dirname, '../..');
const BEFORE = 'npm run accounts -- ';
const commands = commandsOf('accounts.md')
  .filter((command) => command.startsWith(BEFORE))
  // Reports go back a year at most.
  .map((command) => command.slice(BEFORE.length).replace(/\d{4}-\d\d-\d\d/, today()))
  .filter((words) => !words.endsWith('…'));
/** The account of the examples. */
const ACCOUNT = 7;

function today(): string {
  return new Date().toISOString().slice(0, 10);
}

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
      'key-add',
      'key-revoke',
      'rotate-token-key',
    ]),
  );
});

// Closed for good, an account takes no further change.
const inOrder = commands.toSorted(
  (one, other) => Number(one.startsWith('close')) - Number(other.startsWith('close')),
);
test.each(inOrder)('npm run accounts -- %s', (words) => {
  const [, keyId = ''] = /"id":"([^"]+)"/.exec(run(`show ${ACCOUNT} --json`).stdout) ?? [];
  const { status, stdout, stderr } = run(words.replace('<key id>', keyId));
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).not.toBe('');
});
