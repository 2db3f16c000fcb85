import { execFile } from 'node:child_process';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

const PROJECT = join(import.meta.dirname, '../../../..');
const PROVIDE = `
  import { provideRedis } from './scripts/set-up/redis.mjs';
  await provideRedis().catch((error) => console.log(error.message));`;

/** Runs this step of set-up where redis-server prints this as its version. @returns what the step prints */
async function provideWhere(printed: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-redis-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const program = join(folder, 'redis-server');
  await writeFile(program, `#!/bin/sh\necho '${printed}'\n`);
  await chmod(program, 0o755);
  const env = { ...process.env, PATH: `${folder}${delimiter}${process.env['PATH']}` };
  const words = ['--input-type=module', '-e', PROVIDE];
  const options = { cwd: PROJECT, env };
  const { stdout } = await promisify(execFile)(process.execPath, words, options);
  return stdout.replace(program, 'redis-server');
}

test('a redis-server older than 7 is refused, and its version is named', async () => {
  const printed = 'Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64';
  expect(await provideWhere(printed)).toMatch(
    /^Partyline needs Redis 7\.0 or newer, and redis-server is 6\.0\.16: .*REDIS_URL\.\n$/,
  );
});

test.each([
  'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64',
  'Redis server v=10.0.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64',
  'Valkey server v=1.0.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64',
  'something else',
])('%j is taken', async (printed) => {
  expect(await provideWhere(printed)).toBe('');
});
