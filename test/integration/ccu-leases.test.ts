import { expect, test } from 'vitest';
import { PartylineError } from '../../src/protocol/errors.ts';
import { Redis } from '../../src/store/redis.ts';
import { CcuLeases } from '../../src/usage/ccu-leases.ts';
import { silentLog } from '../support/gateway.ts';
import { TestRedis } from '../support/redis.ts';

/** Leases of two processes that share a Redis. */
async function openTwo() {
  const server = await TestRedis.start();
  const redis = await Redis.connect({ url: server.url }, silentLog);
  const open = () => new CcuLeases(redis, silentLog, () => {});
  const [one, other] = [open(), open()];
  return {
    one,
    other,
    async [Symbol.asyncDispose]() {
      one.close();
      other.close();
      await redis.close();
      await server.kill();
    },
  };
}

const holder = (connectionId: string) => ({ accountId: 1, peer: 'alice', connectionId });

test('a lease that is handed over counts once, and is given back by who has it', async () => {
  await using leases = await openTwo();
  const alice = holder('first');
  await leases.one.admit(alice, 1, false);
  leases.one.handOver(alice);
  await leases.one.release(alice);
  expect(await leases.one.count(1)).toBe(1);
  await leases.other.admit(alice, 1, true);
  expect(await leases.one.count(1)).toBe(1);
  await leases.other.release(alice);
  expect(await leases.one.count(1)).toBe(0);
});

test('who connects while an older connection is on its way keeps his place: the older one has been replaced', async () => {
  await using leases = await openTwo();
  const older = holder('older');
  await leases.one.admit(older, 5, false);
  leases.one.handOver(older);
  await leases.one.admit(holder('newer'), 5, false);
  const late = leases.other.admit(older, 5, true);
  await expect(late).rejects.toThrow(PartylineError);
  await expect(late).rejects.toMatchObject({ code: 'replaced' });
  expect(await leases.one.count(1)).toBe(1);
});
