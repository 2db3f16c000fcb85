import { describe, expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { Authenticator } from '../../src/accounts/authenticator.ts';
import { Invites } from '../../src/accounts/invites.ts';
import { RateLimits } from '../../src/accounts/rate-limits.ts';
import { SigningKeys } from '../../src/accounts/signing-keys.ts';
import { Tokens } from '../../src/accounts/tokens.ts';
import { accountKey, ALL_ACCOUNTS } from '../../src/store/keys.ts';
import type { Redis } from '../../src/store/redis.ts';
import { countCommands } from '../support/count-commands.ts';
import { runAccounts } from '../support/data-folder.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openGateway, openStore } = useStack();

const OPERATOR_KEY = 'operator-key-of-the-tests';

/** Stores accounts with the ids 1 to `count`. */
async function storeAccounts(store: Redis, count: number): Promise<void> {
  const PART = 1000;
  for (let first = 1; first <= count; first += PART) {
    const batch = store.client.multi();
    for (let id = first; id < first + PART && id <= count; id += 1) {
      const fields = { name: `Account ${id}`, email: 'ada@example.com', plan: 'free' };
      batch.hSet(accountKey(id), { id, ...fields, status: 'active' });
      batch.sAdd(ALL_ACCOUNTS, String(id));
    }
    await batch.exec();
  }
}

describe('the list of accounts', () => {
  const COUNT = 20_500;

  test('holds more accounts than Redis takes commands at once', async () => {
    const redis = await openRedis();
    await storeAccounts(await openStore(redis), COUNT);
    const ids = Array.from({ length: COUNT }, (_, index) => index + 1);
    const { stdout } = await runAccounts({ REDIS_URL: redis.url }, 'list', '--json');
    expect((JSON.parse(stdout) as { id: number }[]).map(({ id }) => id)).toEqual(ids);
    const gateway = await openGateway({ REDIS_URL: redis.url, OPERATOR_KEY });
    const headers = { authorization: `Bearer ${OPERATOR_KEY}` };
    const response = await fetch(`${gateway.url}/api/admin/accounts`, { headers });
    const { accounts } = (await response.json()) as { accounts: { id: number }[] };
    expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
    // The last one is the demo account of the gateway.
    expect(accounts.map(({ id }) => id)).toEqual([...ids, COUNT + 1]);
    expect(accounts[6]).toEqual({
      id: 7,
      name: 'Account 7',
      email: 'ada@example.com',
      plan: 'free',
      status: 'active',
    });
  });

  test('leaves out ids without an account', async () => {
    const redis = await openRedis();
    const store = await openStore(redis);
    await storeAccounts(store, 250);
    for (let id = 1; id <= 200; id += 1) await store.run((client) => client.del(accountKey(id)));
    const gateway = await openGateway({ REDIS_URL: redis.url, OPERATOR_KEY });
    const headers = { authorization: `Bearer ${OPERATOR_KEY}` };
    const response = await fetch(`${gateway.url}/api/admin/accounts`, { headers });
    const { accounts } = (await response.json()) as { accounts: { id: number }[] };
    expect(accounts.map(({ id }) => id)).toContain(201);
    expect(accounts).not.toContainEqual(expect.objectContaining({ id: 200 }));
  });
});

test('a token costs the same few commands however many keys its account has', async () => {
  const redis = await openRedis();
  const store = await openStore(redis);
  const accounts = new Accounts(store);
  const signingKeys = new SigningKeys(store, { wallMs: Date.now });
  const tokens = new Tokens(signingKeys);
  const limits = new RateLimits(store, {
    authFailuresPerAddress: 100,
    authFailuresPerKeyPrefix: 100,
    requestsPerAccount: 100,
  });
  const authenticator = new Authenticator(accounts, tokens, new Invites(signingKeys), limits);
  const { id } = await accounts.create({ name: 'Ada', email: 'ada@example.com', plan: 'pro' });
  const keys = [];
  for (let key = 0; key < 50; key += 1) keys.push(await accounts.addKey(id));
  const keyId = keys[7]!.id;
  const grant = { peer: 'ada', rooms: '*', publish: true } as const;
  const { token } = await tokens.issue({ accountId: id, keyId }, { ...grant, ttl_seconds: 60 });
  const authenticate = () => authenticator.byToken(token, '192.0.2.1', () => {});
  await authenticate();

  const before = await countCommands(store);
  expect(await authenticate()).toMatchObject({ account: { id }, keyId });
  // The second INFO counts itself, or the first one does.
  expect((await countCommands(store)) - before).toBeLessThanOrEqual(3 + 1);
  await accounts.revokeKey(id, keyId);
  await expect(authenticate()).rejects.toThrow('has been revoked');
});
