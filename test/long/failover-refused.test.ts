import { expect, test } from 'vitest';
import { CREATE, runWorker, spawnAccounts } from '../support/data-folder.ts';
import { timingsOf } from '../support/process.ts';
import { useFailover } from '../support/use-failover.ts';
import { useStack } from '../support/use-stack.ts';

/** A Redis that fails over, to which nothing connects: its address, or a password, is wrong. */

const { cleanUps } = useStack();
const { startRedis, startGateway } = useFailover(cleanUps);

const PASSWORDS = { password: 'of-redis', sentinelPassword: 'of-sentinels' };
/** Shorter durations of a start that fails. */
const IMPATIENT = timingsOf({ redis: { startWithinMs: 3000, longestReconnectMs: 50 } });

test('wrong sentinels, passwords and names: gateway, worker and command end and say why', async () => {
  const redis = await startRedis({ ...PASSWORDS, downAfterMs: 60_000 });
  const { REDIS_URL: url, SENTINEL_PASSWORD } = redis.environment;
  const wrong: [string, Record<string, string>, RegExp][] = [
    [
      'no sentinel',
      { REDIS_URL: 'redis+sentinel://:of-redis@127.0.0.1:1/a' },
      /127.0.0.1:1: .*ECONNREFUSED/,
    ],
    ['a name', { REDIS_URL: `${url}x`, SENTINEL_PASSWORD }, /No such master with that name/],
    ['no password of sentinels', { REDIS_URL: url }, /127.0.0.1:\d+: NOAUTH/],
    ['their password', { REDIS_URL: url, SENTINEL_PASSWORD: 'x' }, /127.0.0.1:\d+: WRONGPASS/],
    [
      'the password of Redis',
      { REDIS_URL: url.replace('of-redis', 'x'), SENTINEL_PASSWORD },
      /cannot be reached: WRONGPASS/,
    ],
  ];
  for (const [, settings, words] of wrong) {
    const environment = { ...settings, ...IMPATIENT };
    const [gateway, supervisor] = await Promise.all(
      ['1', '2'].map((PROCESSES) => startGateway({ ...environment, PROCESSES })),
    );
    const ended = await Promise.all([
      spawnAccounts(environment, ...CREATE),
      runWorker(environment),
      ...[gateway!, supervisor!].map(async (each) => {
        const code = await each.exitCode();
        return { code, stderr: each.output };
      }),
    ]);
    for (const { code, stderr } of ended) {
      expect(code).toBe(1);
      expect(stderr).toMatch(/Redis at redis\+sentinel:\/\/127\.0\.0\.1:\d+/);
      expect(stderr).toMatch(words);
      expect(stderr).not.toContain('of-redis');
    }
  }
  const { code } = await spawnAccounts({ REDIS_URL: url, SENTINEL_PASSWORD }, ...CREATE);
  expect(code).toBe(0);
  // A primary that the sentinels know, and that is not there any more.
  for (const { child } of redis.servers) child.kill('SIGKILL');
  const { stderr } = await spawnAccounts(
    { REDIS_URL: url, SENTINEL_PASSWORD, ...IMPATIENT },
    ...CREATE,
  );
  expect(stderr).toMatch(/cannot be reached: connect ECONNREFUSED 127\.0\.0\.1/);
});
