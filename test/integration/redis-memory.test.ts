import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Redis } from '../../src/store/redis.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import { eventually } from '../support/gateway.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { useWebhooks } from '../support/use-webhooks.ts';

/** Memory that an attack takes in a real Redis, also when the keys of the attack have expired. */

const { openRedis, openStore, openWorker, createAccount, connect, enter, cleanUps } = useWebhooks();

const DAY_MS = 86_400_000;
const ATTACK_MS = 4000;
/** Goal of the hostile bench. */
const MOST_BYTES = 3e6;
/** Growth that shows that there was an attack. */
const LEAST_BYTES = 20_000;
/** Days for which records of usage are kept, and after which all is to be gone. */
const KEEP_DAYS = 92;
const PASSED_MS = (KEEP_DAYS + 2) * DAY_MS;
/** Keys without an expiry, one for each account or for all, whatever its clients do. */
const CONSTANT = [
  /^partyline:usage:months:\d+$/,
  /^partyline:webhooks:(dropped|dropped_of|numbers|seen|nodes|workers)$/,
];
const MOST_CONSTANT_BYTES = 2000;

/** Returns the memory of each key, bytes. */
const memoryOf = (store: Redis) =>
  store.run(async (client) => {
    const sizes = new Map<string, number>();
    for await (const keys of client.scanIterator({ COUNT: 1000 })) {
      for (const key of keys) sizes.set(key, (await client.memoryUsage(key, { SAMPLES: 0 })) ?? 0);
    }
    return sizes;
  });

/** Brings the expiry of every key nearer, as if the time had passed on Redis's clock. */
const letPass = (store: Redis, passedMs: number) =>
  store.run(async (client) => {
    for await (const keys of client.scanIterator({ COUNT: 1000 })) {
      for (const key of keys) {
        const leftMs = await client.pTTL(key);
        if (leftMs >= 0) await client.pExpire(key, Math.max(1, leftMs - passedMs));
      }
    }
  });

const sumOf = (sizes: Iterable<number>) => [...sizes].reduce((sum, size) => sum + size, 0);

const longName = (of: string) => of.padEnd(128, '𝄞').slice(0, 128);
const wrongKey = (n: number) => `pl_${String(n).padStart(48, 'x')}`;

/** Attacks by all that leaves something in Redis: rooms with events, settings, kept places, wrong keys, invitations. */
async function attack(node: { url: string; apiKey: string }): Promise<void> {
  const { url, apiKey } = node;
  const endMs = performance.now() + ATTACK_MS;
  const volumes = (n: number) =>
    Object.fromEntries(Array.from({ length: 500 }, (_, peer) => [`${n} ${peer}`.padEnd(100), 0.5]));
  for (let n = 0; performance.now() < endMs; n += 1) {
    const client = await connect(node, { peer: `attacker ${n}`, room: longName(`first ${n}`) });
    client.send({ type: 'configure', volume: volumes(n) });
    for (let room = 0; room < 50; room += 1)
      client.send({ type: 'join', room: longName(`room ${n} ${room}`) });
    const body = JSON.stringify({ room: `room ${n}`, ttl_seconds: 600, publish: true });
    const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
    await fetch(`${url}/api/invites`, { method: 'POST', headers, body });
    for (let key = 0; key < 10; key += 1) {
      const wrong = { authorization: `Bearer ${wrongKey(10 * n + key)}` };
      await fetch(`${url}/api/me`, { headers: wrong });
    }
    await Promise.race([client.closed, sleep(500)]);
    // Its place is kept.
    client.vanish();
  }
}

test('what an attack leaves in Redis is less than 3 MB, and is gone when its keys have expired', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const usage = new UsageStore(store);
  const gateway = await GatewayProcess.start({
    REDIS_URL: redis.url,
    RESUME_MS: '1000',
    USAGE_WORKERS: '0',
    ...timingsOf({ load: { scrapeEveryMs: 1 }, usage: { writeEveryMs: 100 } }),
  });
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  const friend = await enter({ url, apiKey }, 'ada');
  await friend.close();
  const attacker = await createAccount(redis, 'free', { webhook_url: 'http://127.0.0.1:9/' });
  const before = await memoryOf(store);

  await attack({ url, apiKey: attacker.apiKey });
  const figure = async (name: string) => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return Number(new RegExp(`^partyline_${name} (\\d+)`, 'm').exec(metrics)?.[1]);
  };
  await eventually(
    'nobody is there',
    async () => (await figure('sessions')) + (await figure('kept_places')) === 0,
  );
  gateway.child.kill('SIGTERM');
  await gateway.exitCode();
  const grown = sumOf((await memoryOf(store)).values()) - sumOf(before.values());
  expect(grown).toBeGreaterThan(LEAST_BYTES);
  expect(grown).toBeLessThan(MOST_BYTES);

  // Usage workers close the minutes when they are over, and give up events that are too old.
  for (const minute of await usage.listOpen(Date.now() + DAY_MS))
    await usage.close(minute, KEEP_DAYS);
  const worker = await openWorker(redis, {}, { keepMs: 1 });
  const added = async () => [...(await memoryOf(store))].filter(([key]) => !before.has(key));
  const isWaiting = ([key]: [string, number]) => key.startsWith('partyline:webhooks:outbox');
  await eventually('events are given up', async () => !(await added()).some(isWaiting));
  await worker.close();
  await letPass(store, PASSED_MS);
  const leftOf = async () =>
    (await added()).map(([key]) => key).filter((key) => !CONSTANT.some((one) => one.test(key)));
  await expect.poll(leftOf, { timeout: 10_000, interval: 100 }).toEqual([]);
  expect(sumOf((await added()).map(([, size]) => size))).toBeLessThan(MOST_CONSTANT_BYTES);
});
