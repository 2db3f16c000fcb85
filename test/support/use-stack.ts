import { afterEach } from 'vitest';
import { type TimingOverrides, timingsWith } from '../../config/timings.ts';
import { type Account, Accounts } from '../../src/accounts/accounts.ts';
import { Redis } from '../../src/store/redis.ts';
import { TestClient } from './client.ts';
import { openTestGateway, silentLog, type TestGateway } from './gateway.ts';
import { TestRedis } from './redis.ts';

/** An account as an operator makes it. */
export type TestAccount = { id: number; apiKey: string; keyId: string };

/** Gateways and the Redis that they share, opened by each test for itself, and closed after it in the reverse order. */
export function useStack() {
  const cleanUps: (() => Promise<void> | void)[] = [];
  afterEach(async () => {
    for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
  });

  const openRedis = async (): Promise<TestRedis> => {
    const redis = await TestRedis.start();
    cleanUps.push(() => redis.kill());
    return redis;
  };
  const openGateway = async (
    environment: Record<string, string> = {},
    timings: TimingOverrides = {},
  ): Promise<TestGateway> => {
    const gateway = await openTestGateway(environment, timings);
    cleanUps.push(() => gateway.close());
    return gateway;
  };
  /** Nodes that share a Redis; the key is good on all of them. */
  const openNodes = async (
    count: number,
    environment: Record<string, string> = {},
    redis?: TestRedis,
    timings: TimingOverrides = {},
  ): Promise<TestGateway[]> => {
    const { url } = redis ?? (await openRedis());
    const shared = { REDIS_URL: url, MEDIA_WORKERS: '1', ...environment };
    const first = await openGateway(shared, timings);
    const others: TestGateway[] = [];
    while (others.length < count - 1) others.push(await openGateway(shared, timings));
    return [first, ...others.map((node) => ({ ...node, apiKey: first.apiKey }))];
  };
  /** A connection to the Redis, as the parts of the gateway have one. */
  const openStore = async (
    redis: TestRedis,
    timings: TimingOverrides['redis'] = {},
  ): Promise<Redis> => {
    const { redis: durations } = timingsWith({ redis: timings });
    const store = await Redis.connect({ url: redis.url }, silentLog, durations);
    cleanUps.push(() => store.close());
    return store;
  };
  const createAccount = async (
    redis: TestRedis,
    plan: Account['plan'],
    extra: Partial<Account> = {},
  ): Promise<TestAccount> => {
    const accounts = new Accounts(await openStore(redis));
    const { id } = await accounts.create({
      name: 'Other',
      email: 'other@localhost',
      plan,
      ...extra,
    });
    const { apiKey, id: keyId } = await accounts.addKey(id);
    return { id, apiKey, keyId };
  };
  /** Connects to room `a`, unless the query says otherwise. */
  const connect = async (
    gateway: { url: string; apiKey?: string },
    query: Record<string, string | undefined> = {},
    headers: Record<string, string> = {},
  ): Promise<TestClient> => {
    const client = await TestClient.connect(
      gateway.url,
      { room: 'a', peer: 'alice', api_key: gateway.apiKey, audio: 'opus', ...query },
      { headers },
    );
    cleanUps.push(() => client.vanish());
    return client;
  };
  const enter = async (
    gateway: { url: string; apiKey?: string },
    peer: string,
    query: Record<string, string> = {},
  ) => {
    const client = await connect(gateway, { peer, ...query });
    await client.next('joined');
    return client;
  };
  return { openRedis, openGateway, openNodes, openStore, createAccount, connect, enter, cleanUps };
}
