import * as fc from 'fast-check';
import Fastify from 'fastify';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { Authenticator } from '../../src/accounts/authenticator.ts';
import { Invites } from '../../src/accounts/invites.ts';
import { RateLimits } from '../../src/accounts/rate-limits.ts';
import { LONGEST_LIFE_SECONDS, SigningKeys } from '../../src/accounts/signing-keys.ts';
import { Tokens } from '../../src/accounts/tokens.ts';
import { runAccountsCommand } from '../../src/cli/run-accounts-command.ts';
import {
  ACCOUNT_CHANGES,
  accountKey,
  apiKeyHashesKey,
  apiKeyRecordKey,
  SIGNING_KEY_CHANGES,
  SIGNING_KEYS,
} from '../../src/store/keys.ts';
import { registerAdminRoutes } from '../../src/http/admin-routes.ts';
import { asRestServer } from '../../src/http/api-docs.ts';
import { registerProblems } from '../../src/http/problem.ts';
import type { RestGuard } from '../../src/http/rest.ts';
import type { UsageReports } from '../../src/http/usage-reports.ts';
import { UsageStore } from '../../src/usage/usage-store.ts';
import { TestClient } from '../support/client.ts';
import { runAccounts, spawnAccounts, typeAccounts } from '../support/data-folder.ts';
import { eventually } from '../support/gateway.ts';
import { LosingProxy } from '../support/losing-proxy.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';
import { watchSlowness } from '../support/slowness.ts';
import { count as countOf, KEEP_DAYS } from '../support/usage.ts';
import { useGateway } from '../support/use-gateway.ts';
import { useStack } from '../support/use-stack.ts';

/** Closed after the clients of the stack. */
const used = useGateway();
const { openRedis, openGateway, openNodes, openStore, createAccount, connect, enter, cleanUps } =
  useStack();

const OPERATOR_KEY = 'operator-key-of-the-tests';
/**
 * Runs the operator's command in this process.
 * @returns what it prints
 * @throws {Error} with its exit code and output, if it fails
 */
async function accounts(redis: TestRedis, ...words: string[]): Promise<string> {
  const ended = await runAccounts({ REDIS_URL: redis.url }, ...words);
  if (ended.code === 0) return ended.stdout;
  throw Object.assign(new Error(ended.stderr), ended);
}
const accountsJson = async <T>(redis: TestRedis, ...words: string[]): Promise<T> =>
  JSON.parse(await accounts(redis, ...words, '--json')) as T;

const rest = async (
  url: string,
  key: string,
  method = 'GET',
  body?: unknown,
): Promise<{ status: number; headers: Headers; body: unknown }> => {
  const response = await fetch(url, {
    method,
    headers: {
      authorization: `Bearer ${key}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const answer: unknown = text === '' ? undefined : JSON.parse(text);
  return { status: response.status, headers: response.headers, body: answer };
};

const createAccountIn = (account: Accounts) =>
  account.create({ name: 'Ada', email: 'ada@example.com', plan: 'free' });

describe("the operator's command", () => {
  test('create, show, key-add, key-revoke, list: keys work until they are revoked, and are shown once', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const words = ['create', '--name', 'Ada', '--email', 'ada@example.com', '--plan', 'pro'];
    const ended = await spawnAccounts({ REDIS_URL: redis.url }, ...words, '--json');
    expect(ended).toMatchObject({ code: 0, stderr: '' });
    const made = JSON.parse(ended.stdout) as { id: number; api_key: string };
    expect(Object.keys(made)).toEqual(['id', 'api_key']);
    const me = await rest(`${gateway.url}/api/me`, made.api_key);
    expect(me.body).toMatchObject({
      account: { id: made.id, name: 'Ada', email: 'ada@example.com', plan: 'pro' },
    });
    const id = String(made.id);
    const second = await accountsJson<{ key_id: string; api_key: string }>(redis, 'key-add', id);
    const shown = await accounts(redis, 'show', id);
    expect(shown).toContain(second.key_id);
    expect(shown).toContain('last_used_at');
    expect(shown).not.toContain(made.api_key);
    const client = await enter(gateway, 'ada', { api_key: second.api_key });
    const other = await enter(gateway, 'bob', { api_key: made.api_key });
    await accounts(redis, 'key-revoke', id, second.key_id);
    expect(await client.closed).toBe(4401);
    expect((await rest(`${gateway.url}/api/me`, second.api_key)).status).toBe(401);
    expect((await rest(`${gateway.url}/api/me`, made.api_key)).status).toBe(200);
    await other.ask({ type: 'leave' }, 'left');
    expect(await accounts(redis, 'list')).toContain('ada@example.com');
  });

  test('ends as soon as it is done, however long Redis may take to answer', async () => {
    const redis = await openRedis();
    const patient = timingsOf({ redis: { commandTimeoutMs: 600_000, startWithinMs: 600_000 } });
    const ended = await spawnAccounts({ REDIS_URL: redis.url, ...patient }, 'list', '--json');
    expect(ended).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
  });

  test('close on a terminal: names the account, and closes it when its number is typed', async () => {
    const redis = await openRedis();
    const { id } = await createAccount(redis, 'free');
    const close = (typed: string) =>
      typeAccounts({ REDIS_URL: redis.url }, typed, 'close', String(id));
    for (const typed of ['yes\r', '\r', '\u0004']) {
      const ended = await close(typed);
      expect(ended.stdout).toContain(`Account ${id} is "`);
      expect(ended).toMatchObject({ code: 2, stdout: expect.stringContaining('was not closed') });
    }
    expect(await accounts(redis, 'show', String(id))).toContain('status: active');
    expect(await close(`${id}\r`)).toMatchObject({ code: 0 });
    expect(await accounts(redis, 'show', String(id))).toContain('status: closed');
  });

  test('suspend, activate, set-plan, close: running gateways feel it at once', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const { id, apiKey } = await createAccount(redis, 'free');
    const client = await enter(gateway, 'ada', { api_key: apiKey });
    await accounts(redis, 'suspend', String(id));
    expect(await client.closed).toBe(4403);
    const refused = await connect(gateway, { api_key: apiKey });
    expect(await refused.closed).toBe(4403);
    await accounts(redis, 'activate', String(id));
    await accounts(redis, 'set-plan', String(id), 'starter');
    const again = await enter(gateway, 'ada', { api_key: apiKey });
    expect((await again.next('welcome')).limits.max_ccu).toBe(25);
    await accounts(redis, 'close', String(id));
    expect(await again.closed).toBe(4403);
    await expect(accounts(redis, 'activate', String(id))).rejects.toThrow('closed permanently');
    await expect(accounts(redis, 'key-add', String(id))).rejects.toThrow('closed permanently');
  });
});

describe('a change whose answer is lost', () => {
  const QUICK = timingsOf({ redis: { commandTimeoutMs: 500 } });
  const URL_OF_HOOK = 'https://example.com/hook';

  /** A Redis with an account, and commands of which all answers are lost from a text on. */
  async function openLosing() {
    const redis = await openRedis();
    const store = await openStore(redis);
    const account = new Accounts(store);
    const { id } = await createAccountIn(account);
    const proxy = await LosingProxy.open(redis.url);
    cleanUps.push(() => proxy.close());
    const losing = (from: string, ...words: string[]) => {
      proxy.from = from;
      return runAccounts({ REDIS_URL: proxy.url, ...QUICK }, ...words);
    };
    return { account, store, id, losing };
  }
  const failed = (sentence: string) => ({
    code: 1,
    stdout: '',
    stderr: expect.stringMatching(
      new RegExp(`^${sentence} Cause: redis took more than 500 ms\n$`),
    ) as string,
  });

  test('set-webhook: to be set again, because the secret was not shown', async () => {
    const { account, id, losing } = await openLosing();
    const ended = await losing('whsec_', 'set-webhook', String(id), URL_OF_HOOK);
    const sentence = `It is not known whether account ${id} was changed. Set the webhook URL again, .*`;
    expect(ended).toMatchObject(failed(sentence));
    expect(await account.findWebhook(id)).toMatchObject({ url: URL_OF_HOOK });
  });

  test('set-plan: to be repeated', async () => {
    const { account, id, losing } = await openLosing();
    const ended = await losing('starter', 'set-plan', String(id), 'starter');
    expect(ended).toMatchObject(failed(`.*account ${id} was changed. .*, or repeat the change.`));
    expect(await account.getOrThrow(id)).toHaveProperty('plan', 'starter');
  });

  test('create: names the account that there may be', async () => {
    const { account, losing } = await openLosing();
    const words = ['create', '--name', 'Lost', '--email', 'a@b', '--webhook-url', URL_OF_HOOK];
    const ended = await losing('Lost', ...words);
    const sentence = `It is not known whether account 2 was created. Look for it before you create another; .* webhook URL again.`;
    expect(ended).toMatchObject(failed(sentence));
    expect(await account.getOrThrow(2)).toHaveProperty('name', 'Lost');
  });

  test('create, with the answer about the key: names the account', async () => {
    const { account, losing } = await openLosing();
    const ended = await losing(apiKeyRecordKey(''), 'create', '--name', 'Lost', '--email', 'a@b');
    expect(ended).toMatchObject(failed('Account 2 was created, but .*, and add another.'));
    expect(await account.listKeys(2)).toHaveLength(1);
  });

  test('key-add: names the key', async () => {
    const { account, id, losing } = await openLosing();
    const ended = await losing(apiKeyRecordKey(''), 'key-add', String(id));
    const [key] = await account.listKeys(id);
    expect(ended).toMatchObject(failed(`.*key ${key!.id} was added to account ${id}. .* another.`));
  });

  test('key-revoke: to be repeated', async () => {
    const { account, id, losing } = await openLosing();
    const { id: keyId } = await account.addKey(id);
    const ended = await losing('PUBLISH', 'key-revoke', String(id), keyId);
    const sentence = `It is not known whether key ${keyId} of account ${id} was revoked. Repeat it: .*`;
    expect(ended).toMatchObject(failed(sentence));
    expect(await account.listKeys(id)).toEqual([]);
  });

  test('rotate-token-key: to be repeated', async () => {
    const { store, losing } = await openLosing();
    // Redis knows the script from now on: otherwise it asks for it, and that answer is lost.
    await new SigningKeys(store, { wallMs: Date.now }).rotate(false);
    const former = await store.client.lIndex(SIGNING_KEYS, 0);
    const ended = await losing(SIGNING_KEY_CHANGES, 'rotate-token-key');
    expect(ended).toMatchObject(failed('.* whether tokens are signed with a new key. Repeat it.'));
    expect(await store.client.lIndex(SIGNING_KEYS, 0)).not.toBe(former);
  });

  test('over REST: a change may be repeated by itself, a new account may not', async () => {
    const { account, store, id } = await openLosing();
    const app = Fastify();
    registerProblems(app);
    const guard = { operator: () => Promise.resolve() } as unknown as RestGuard;
    const reports = {} as UsageReports;
    const parts = { guard, accounts: account, reports, drain: () => 0 };
    registerAdminRoutes(asRestServer(app), parts);
    const write = vi.spyOn(store.client, 'writeAccount');
    write.mockRejectedValue(new Error('Socket closed unexpectedly'));
    const url = '/api/admin/accounts';
    const changed = await app.inject({ method: 'PATCH', url: `${url}/${id}`, body: { name: 'x' } });
    expect(changed.statusCode).toBe(503);
    expect(changed.headers).toHaveProperty('retry-after');
    const body = { name: 'x', email: 'a@b', plan: 'free' };
    const created = await app.inject({ method: 'POST', url, body });
    expect(created.statusCode).toBe(500);
    expect(created.headers).not.toHaveProperty('retry-after');
    expect(created.json<{ detail: string }>().detail).toContain('whether account 2 was created');
    await app.close();
  });
});

test('a change of an account takes one command, whose answer is the account', async () => {
  const store = await openStore(await openRedis());
  const account = new Accounts(store);
  const { id, created_at } = await createAccountIn(account);
  const run = vi.spyOn(store, 'run');
  expect(await account.update(id, { plan: 'pro', pinned_audio: 'opus' })).toEqual({
    id,
    name: 'Ada',
    email: 'ada@example.com',
    plan: 'pro',
    status: 'active',
    created_at,
    pinned_audio: 'opus',
  });
  expect(run).toHaveBeenCalledTimes(1);
});

describe('the report of the usage command', () => {
  /** Runs `usage` for an account with 1200 rooms in a minute. @returns its exit code and what it wrote, part by part */
  async function printUsage(words: string[], write: (parts: number) => Promise<void>) {
    const redis = await openRedis();
    const { id: accountId } = await createAccount(redis, 'pro');
    const usage = new UsageStore(await openStore(redis));
    const minute = new Date().toISOString().slice(0, 16);
    const rooms = Array.from({ length: 1200 }, (_, room) =>
      countOf({ accountId, minute, room: `room ${room}`, websocketMs: 1500 }),
    );
    await usage.write(rooms);
    await usage.close({ accountId, minute }, KEEP_DAYS);
    const parts: string[] = [];
    const stdout = { write: (text: string) => write(parts.push(text)) };
    const asked = ['usage', String(accountId), '--granularity', 'minute'];
    const code = await runAccountsCommand(
      [...asked, '--from', minute.slice(0, 10), ...words],
      { ...process.env, REDIS_URL: redis.url },
      { stdout, stderr: { write: () => true } },
    );
    return { code, parts };
  }

  test('is printed as it is read, because one of a month may be longer than a string', async () => {
    const { code, parts } = await printUsage([], () => Promise.resolve());
    const lines = parts.join('').trimEnd().split('\n');
    expect({ code, lines: lines.length, last: lines.at(-1) }).toEqual({
      code: 0,
      lines: 1201,
      last: 'total: 1800 s',
    });
    expect(parts.length).toBeGreaterThanOrEqual(4);
  });

  test('is one line of JSON with --json, printed as it is read, too', async () => {
    const { code, parts } = await printUsage(['--json'], () => Promise.resolve());
    const [line = '', ...others] = parts.join('').split('\n');
    expect({ code, others }).toEqual({ code: 0, others: [''] });
    const report = JSON.parse(line) as { records: unknown[] };
    expect(report).toMatchObject({ granularity: 'minute', total_seconds: 1800 });
    expect(report.records).toHaveLength(1200);
    expect(parts.length).toBeGreaterThanOrEqual(4);
  });

  test('ends where its reader wants no more', async () => {
    const fault = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
    const { code, parts } = await printUsage([], (printed) =>
      printed < 2 ? Promise.resolve() : Promise.reject(fault),
    );
    expect({ code, parts: parts.length }).toEqual({ code: 0, parts: 2 });
  });
});

test('an account that is suspended while Redis does not answer loses its connections afterwards', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url }, { redis: { retryAfterMs: 200 } });
  const { id, apiKey } = await createAccount(redis, 'pro');
  const alice = await enter({ url: gateway.url, apiKey }, 'alice');
  const store = await openStore(redis);
  // The gateway hears of the change, and gets no answer when it asks which it is.
  await store.run((client) =>
    Promise.all([
      client.hSet(accountKey(id), 'status', 'suspended'),
      client.publish(ACCOUNT_CHANGES, String(id)),
      client.sendCommand(['CLIENT', 'PAUSE', '2500', 'ALL']),
    ]),
  );
  expect(await alice.closed).toBe(4403);
});

describe("a mistake in the operator's command", () => {
  let redis: TestRedis;
  beforeAll(async () => {
    redis = await TestRedis.start();
  });
  afterAll(() => redis.kill());

  const REFUSED = {
    code: 2,
    stdout: '',
    stderr: expect.stringMatching(/^.+\n$|^npm run/) as string,
  };

  test.each([
    [['create', '--name', 'x', '--email', 'nobody']],
    [['create', '--name', 'x', '--email', 'a@b', '--plan', 'gold']],
    [['create', '--name', 'x', '--email', 'a@b', '--pinned-audio', 'amr']],
    [['set-audio', '1', '--default-audio', 'pcm_s16le;rate=49999;channels=1']],
    [['set-plan', '99', 'pro']],
    [['suspend', 'all']],
    [['key-revoke', '1', 'no-such-key']],
    [['create', '--name', 'x', '--email', 'a@b', '--webhook-url', 'ftp://x']],
    [['set-webhook', '1']],
    [['dance']],
    [['list', '--unknown']],
    [['list', 'extra']],
    [['list', '--plan', 'free']],
    [['key-revoke', '1']],
    [['usage', '1', '--granularity', 'week']],
    [['usage', '1', '--from', '2026-02-31']],
  ])('%j: refused with a sentence and exit code 2', async (words) => {
    expect(await runAccounts({ REDIS_URL: redis.url }, ...words)).toMatchObject(REFUSED);
  });

  test('the process has the same exit code', async () => {
    const ended = await Promise.all([
      spawnAccounts({ REDIS_URL: redis.url }, 'set-plan', '99', 'pro'),
      spawnAccounts({ REDIS_URL: redis.url }, 'dance'),
    ]);
    expect(ended).toMatchObject([REFUSED, REFUSED]);
  });

  test.each([
    [['create'], 'create needs --name NAME and --email EMAIL.'],
    [['create', '--name', 'x'], 'create needs --name NAME and --email EMAIL.'],
    [['show'], 'Missing account id'],
    [['show', 'ada'], '"ada" is not an account id'],
    [['key-revoke', '1'], 'Missing key id'],
    [['key-revoke', '1', '7'], '"7" is not a key id. Use the 16 hex digits'],
    [['set-audio', '1'], 'set-audio needs --default-audio or --pinned-audio.'],
    [['set-webhook', '1'], 'Missing URL'],
    [['list', '--plan', 'free'], 'list does not take --plan.'],
    [['close', '1', '--now', '--to', '2026-01-01'], 'close does not take --now, --to.'],
    [['set-webhook', '1', '--webhook-url', 'https://b'], 'set-webhook does not take --webhook-url'],
    [['dance'], 'There is no command "dance"'],
    [['constructor'], 'There is no command "constructor"'],
  ])('%j: what is missing or wrong is named', async (words, sentence) => {
    const stderr = expect.stringContaining(sentence) as string;
    const ended = await runAccounts({ REDIS_URL: redis.url }, ...words);
    expect(ended).toMatchObject({ code: 2, stderr });
  });

  test('--help shows what there is, and a folder that is not there is told', async () => {
    expect(await accounts(redis, '--help')).toContain('rotate-token-key');
    expect(await spawnAccounts({ DATA_DIR: '/nowhere/to/be/found' }, 'list')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('/nowhere/to/be/found') as string,
    });
  });
});

const SECRET = expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/) as string;

test('the secret of a webhook is shown when its URL is set, and only then', async () => {
  const redis = await openRedis();
  const gateway = await openGateway({ REDIS_URL: redis.url, OPERATOR_KEY });
  const url = 'https://example.com/hook?of=ada';
  const words = ['create', '--name', 'Ada', '--email', 'a@b', '--webhook-url', url];
  const made = await accountsJson<{ id: number; webhook_secret: string }>(redis, ...words);
  expect(made.webhook_secret).toEqual(SECRET);
  const id = String(made.id);
  const again = await accountsJson<{ webhook_secret: string }>(redis, 'set-webhook', id, url);
  expect(again.webhook_secret).toEqual(SECRET);
  expect(again.webhook_secret).not.toBe(made.webhook_secret);
  const one = `${gateway.url}/api/admin/accounts/${id}`;
  const patched = await rest(one, OPERATOR_KEY, 'PATCH', { webhook_url: url });
  expect(patched.body).toMatchObject({ webhook_url: url, webhook_secret: SECRET });
  const shown = [
    await accounts(redis, 'show', id),
    await accounts(redis, 'list'),
    JSON.stringify((await rest(one, OPERATOR_KEY)).body),
    JSON.stringify((await rest(`${gateway.url}/api/admin/accounts`, OPERATOR_KEY)).body),
    JSON.stringify((await rest(one, OPERATOR_KEY, 'PATCH', { plan: 'pro' })).body),
  ];
  for (const text of shown) {
    expect(text).toContain(url);
    expect(text).not.toContain('whsec_');
  }
  const none = await accountsJson<object>(redis, 'set-webhook', id, '');
  expect(none).not.toHaveProperty('webhook_url');
  expect(none).not.toHaveProperty('webhook_secret');
});

test('the webhook of a closed account can be removed, and nothing else of it changed', async () => {
  const store = await openStore(await openRedis());
  const account = new Accounts(store);
  const url = 'https://example.com/hook';
  const given = { name: 'Ada', email: 'a@b', plan: 'free', webhook_url: url } as const;
  const { id } = await account.create(given);
  await account.update(id, { status: 'closed' });
  for (const changes of [{ webhook_url: url }, { webhook_url: '', status: 'active' } as const]) {
    await expect(account.update(id, changes)).rejects.toThrow('closed permanently');
  }
  expect(await account.listWithWebhook()).toEqual([id]);
  expect(await account.update(id, { webhook_url: '' })).not.toHaveProperty('webhook_url');
  expect(await account.listWithWebhook()).toEqual([]);
});

describe('/api/admin', () => {
  const refusing = useGateway({ OPERATOR_KEY });

  test('makes, changes and reads accounts and keys; a pinned format is taken for what clients send', async () => {
    const gateway = await openGateway({ OPERATOR_KEY });
    const root = `${gateway.url}/api/admin/accounts`;
    const made = await rest(root, OPERATOR_KEY, 'POST', {
      name: 'Ada',
      email: 'ada@example.com',
      plan: 'free',
      pinned_audio: 'pcm_s16le;rate=11025;channels=1',
    });
    expect(made.status).toBe(201);
    const { account, api_key: apiKey } = made.body as { account: { id: number }; api_key: string };
    const client = await enter(gateway, 'ada', { api_key: apiKey, audio: 'auto' });
    expect((await client.next('welcome')).audio.in).toBe('pcm_s16le;rate=11025;channels=1');
    const one = `${root}/${account.id}`;
    const key = await rest(`${one}/keys`, OPERATOR_KEY, 'POST');
    expect(key.status).toBe(201);
    const { key_id: keyId } = key.body as { key_id: string };
    expect((await rest(`${one}/keys/${keyId}`, OPERATOR_KEY, 'DELETE')).status).toBe(204);
    expect((await rest(`${one}/keys/${keyId}`, OPERATOR_KEY, 'DELETE')).status).toBe(404);
    const changed = await rest(one, OPERATOR_KEY, 'PATCH', { plan: 'pro', pinned_audio: '' });
    expect(changed.body).not.toHaveProperty('pinned_audio');
    expect((await rest(one, OPERATOR_KEY)).body).toMatchObject({
      account: { plan: 'pro' },
      keys: [{ id: expect.any(String) as string }],
    });
    expect((await rest(`${one}/usage?granularity=day`, OPERATOR_KEY)).status).toBe(200);
    const all = (await rest(root, OPERATOR_KEY)).body as { accounts: unknown[] };
    expect(all.accounts.length).toBe(2);
  });

  test.each([
    ['POST', '', { name: 'x', email: 'a@b', plan: 'gold' }, 400],
    ['POST', '', { name: 'x', email: 'a@b', plan: 'pro', status: 'active' }, 400],
    ['PATCH', '/1', { id: 2 }, 400],
    ['PATCH', '/99', { plan: 'pro' }, 404],
    ['PATCH', '/1', { default_audio: 'pcm_s16le;rate=48001;channels=1' }, 400],
    ['PATCH', '/1', { pinned_audio: 'pcm_s16le;rate=49999;channels=1' }, 400],
    ['PATCH', '/1', { webhook_url: 'http://user:secret@example.com' }, 400],
    ['PATCH', '/1', { webhook_url: 'http://1.2.3.4.5/' }, 400],
    ['PATCH', '/1', { webhook_secret: 'whsec_' }, 400],
    ['GET', '/zero', undefined, 400],
    ['GET', '/1.9', undefined, 400],
    ['PATCH', '/true', { name: 'x' }, 400],
    ['POST', '/0x1/keys', undefined, 400],
    ['GET', '/1/usage?from=never', undefined, 400],
    ['GET', '/1/usage?from=2020-01-01&granularity=minute', undefined, 400],
    ['GET', '/1/usage?from=2026-01-02&to=2026-01-01', undefined, 400],
  ])('%s %s with %j is %i', async (method, path, body, status) => {
    const url = `${refusing.gateway.url}/api/admin/accounts${path}`;
    const answer = await rest(url, OPERATOR_KEY, method, body);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('content-type')).toContain('application/problem+json');
  });

  test('a pinned format that is not accepted any more: the account is read and changed without it', async () => {
    const redis = await openRedis();
    const store = await openStore(redis);
    const account = new Accounts(store);
    const { id } = await account.create({ name: 'Ada', email: 'ada@example.com', plan: 'free' });
    const fields = { pinned_audio: 'pcm_s16le;rate=49999;channels=1', default_audio: 'pcmu' };
    await store.run((client) => client.hSet(`partyline:account:${id}`, fields));
    const read = await account.getOrThrow(id);
    expect(read).not.toHaveProperty('pinned_audio');
    expect(read).toHaveProperty('default_audio', 'pcmu');
    const changed = await account.update(id, { pinned_audio: 'opus' });
    expect(changed).toHaveProperty('pinned_audio', 'opus');
  });

  test('a last use in the future, from a wrong clock, is replaced at the next use', async () => {
    const store = await openStore(await openRedis());
    const account = new Accounts(store);
    const { id } = await account.create({ name: 'Ada', email: 'ada@example.com', plan: 'free' });
    const { apiKey } = await account.addKey(id);
    await account.findByKey(apiKey);
    const [hash = ''] = await store.client.sMembers(apiKeyHashesKey(id));
    await store.client.hSet(apiKeyRecordKey(hash), 'last_used_at', '2999-01-01T00:00:00.000Z');
    await account.findByKey(apiKey);
    const [key] = await account.listKeys(id);
    expect(Math.abs(Date.now() - Date.parse(key!.last_used_at!))).toBeLessThan(60_000);
  });

  test.each(['a token', 'an invitation'])('the use of %s is a use of its key', async (what) => {
    const store = await openStore(await openRedis());
    const account = new Accounts(store);
    const signingKeys = new SigningKeys(store, { wallMs: Date.now });
    const [tokens, invites] = [new Tokens(signingKeys), new Invites(signingKeys)];
    const limits = new RateLimits(store, {
      authFailuresPerAddress: 100,
      authFailuresPerKeyPrefix: 100,
      requestsPerAccount: 100,
    });
    const authenticator = new Authenticator(account, tokens, invites, limits);
    const { id } = await account.create({ name: 'Ada', email: 'ada@example.com', plan: 'free' });
    const owner = { accountId: id, keyId: (await account.addKey(id)).id };
    const grant = { peer: 'ada', rooms: '*', publish: true, ttl_seconds: 60 } as const;
    const { token } = await tokens.issue(owner, grant);
    const { invite } = await invites.issue(owner, { room: 'a' });
    const use = () =>
      what === 'a token'
        ? authenticator.byToken(token, '192.0.2.1', () => {})
        : authenticator.byInvite(invite, '192.0.2.1');
    await use();
    const readLastUse = async () => (await account.listKeys(id))[0]?.last_used_at ?? '';
    const lastUse = await readLastUse();
    expect(Math.abs(Date.now() - Date.parse(lastUse))).toBeLessThan(60_000);
    const [hash = ''] = await store.client.sMembers(apiKeyHashesKey(id));
    await store.client.hDel(apiKeyRecordKey(hash), 'last_used_at');
    // Within a minute nothing is written again.
    await use();
    expect(await readLastUse()).toBe('');
  });

  test('a key that is revoked as it is used leaves nothing in Redis', async () => {
    const store = await openStore(await openRedis());
    const account = new Accounts(store);
    const { id } = await account.create({ name: 'Ada', email: 'ada@example.com', plan: 'free' });
    const { id: keyId, apiKey } = await account.addKey(id);
    const [hash = ''] = await store.client.sMembers(apiKeyHashesKey(id));
    // The key is found, then deleted, then its use is noted.
    await Promise.all([account.revokeKey(id, keyId), account.findByKey(apiKey)]);
    expect(await store.client.exists(apiKeyRecordKey(hash))).toBe(0);
  });

  test('a change that comes with the closing of the account does not open it again', async () => {
    const account = new Accounts(await openStore(await openRedis()));
    const { id } = await account.create({ name: 'Ada', email: 'ada@example.com', plan: 'free' });
    const outcomes = await Promise.allSettled([
      account.update(id, { status: 'closed' }),
      account.update(id, { status: 'active' }),
    ]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(await account.getOrThrow(id)).toHaveProperty('status', 'closed');
  });

  test('without the operator key it is closed', async () => {
    const gateway = await openGateway({ OPERATOR_KEY });
    const admin = `${gateway.url}/api/admin/accounts`;
    expect((await rest(admin, 'operator-key-of-nobody')).status).toBe(401);
    expect((await rest(admin, gateway.apiKey)).status).toBe(401);
    // The key comes first, whatever is wrong with the rest.
    for (const path of ['/zero', '/zero/usage', '/zero/webhook']) {
      expect((await rest(`${admin}${path}`, gateway.apiKey)).status).toBe(401);
    }
    const keyless = await openGateway();
    expect((await rest(`${keyless.url}/api/admin/accounts`, OPERATOR_KEY)).status).toBe(403);
  });
});

describe('concurrent users', () => {
  test('200 connections at once over two gateways, at a limit of 5: exactly 5 are let in', async () => {
    const redis = await openRedis();
    const gateways = await Promise.all([1, 2].map(() => openGateway({ REDIS_URL: redis.url })));
    const { apiKey } = await createAccount(redis, 'free');
    const clients = await Promise.all(
      Array.from({ length: 200 }, (_, index) =>
        TestClient.connect(gateways[index % 2]!.url, {
          room: '__lobby__',
          peer: `peer-${index}`,
          api_key: apiKey,
        }),
      ),
    );
    cleanUps.push(() => {
      for (const client of clients) client.vanish();
    });
    const outcomes = await Promise.all(
      clients.map((client) =>
        Promise.race([client.next('welcome').then(() => 'in'), client.closed]),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 'in').length).toBe(5);
    expect(outcomes.filter((outcome) => outcome === 4429).length).toBe(195);
    const refused = clients[outcomes.indexOf(4429)]!;
    expect(refused.messages.at(-1)).toMatchObject({
      type: 'error',
      code: 'ccu_limit',
      retryable: true,
      retry_after_ms: expect.any(Number) as number,
    });
  });

  test('a peer that replaces itself at the limit needs no second slot, on the same gateway or on another', async () => {
    const redis = await openRedis();
    const [one, other] = await Promise.all([1, 2].map(() => openGateway({ REDIS_URL: redis.url })));
    const { apiKey } = await createAccount(redis, 'free');
    for (const peer of ['1', '2', '3', '4', '5']) {
      await enter(one!, peer, { api_key: apiKey });
    }
    const before = await enter(one!, '5', { api_key: apiKey });
    const moved = await enter(other!, '5', { api_key: apiKey });
    expect((await moved.next('welcome')).limits.current_ccu).toBe(5);
    expect(await before.closed).toBe(4409);
    const sixth = await connect(other!, { peer: '6', api_key: apiKey });
    expect(await sixth.closed).toBe(4429);
    await moved.close();
    await eventually('its slot is free', async () => {
      const next = await connect(other!, { peer: '7', api_key: apiKey });
      const isIn = await Promise.race([
        next.next('welcome').then(() => true),
        next.closed.then(() => false),
      ]);
      return isIn;
    });
  });

  test('a peer that replaces itself over the limit, in the lobby, keeps its slot', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const { apiKey, id } = await createAccount(redis, 'starter');
    const inLobby = (peer: string) =>
      connect(gateway, { room: '__lobby__', peer, api_key: apiKey });
    const clients = await Promise.all(['1', '2', '3', '4', '5', '6'].map(inLobby));
    await Promise.all(clients.map((client) => client.next('welcome')));
    await new Accounts(await openStore(redis)).update(id, { plan: 'free' });
    const again = await inLobby('2');
    expect((await again.next('welcome')).limits).toMatchObject({ current_ccu: 6 });
    expect(await clients[1]!.closed).toBe(4409);
    expect(await (await inLobby('7')).closed).toBe(4429);
  });

  test('a gateway that is killed: its connections free themselves when their leases run out', async () => {
    const redis = await openRedis();
    const leases = { leaseMs: 5000, renewEveryMs: 400 };
    const doomed = await GatewayProcess.start({
      REDIS_URL: redis.url,
      USAGE_WORKERS: '0',
      ...timingsOf({ leases }),
    });
    cleanUps.push(() => doomed.dispose());
    const gateway = await openGateway({ REDIS_URL: redis.url }, { leases });
    const { apiKey, id } = await createAccount(redis, 'free');
    const { url } = await doomed.ready();
    for (const peer of ['1', '2', '3', '4', '5']) await enter({ url, apiKey }, peer);
    doomed.child.kill('SIGKILL');
    const late = await connect(gateway, { peer: '6', api_key: apiKey });
    expect(await late.closed).toBe(4429);
    const store = await openStore(redis);
    const isFree = async () => {
      const count = `local now = redis.call('TIME'); return redis.call('ZCOUNT', KEYS[1], now[1] * 1000, '+inf')`;
      const keys = [`partyline:ccu:${id}`];
      return (await store.run((client) => client.eval(count, { keys }))) === 0;
    };
    await eventually('all leases have run out', isFree);
    await enter(gateway, '6', { api_key: apiKey });
  });
});

describe('tokens', () => {
  const ask = (gateway: { url: string; apiKey: string }, body: object) =>
    rest(`${gateway.url}/api/tokens`, gateway.apiKey, 'POST', body);
  const grant = { peer: 'ada', rooms: ['a', 'b'], ttl_seconds: 60, publish: true };

  async function tokenOf(gateway: { url: string; apiKey: string }, body: object): Promise<string> {
    const answer = await ask(gateway, body);
    expect(answer.status).toBe(200);
    return (answer.body as { token: string }).token;
  }
  const withToken = (token: string, query: Record<string, string> = {}) => ({
    api_key: undefined,
    token,
    peer: 'ada',
    ...query,
  });

  test('any text, and any change of a token: not valid, or the same token', async () => {
    const store = await openStore(await openRedis());
    const tokens = new Tokens(new SigningKeys(store, { wallMs: Date.now }));
    const owner = { accountId: 7, keyId: 'key' };
    const given = { peer: 'ada', rooms: ['a'], publish: false };
    const { token } = await tokens.issue(owner, { ...given, ttl_seconds: 60 });
    const changed = fc
      .tuple(fc.nat(token.length - 1), fc.string({ minLength: 1, maxLength: 3 }))
      .map(([at, text]) => token.slice(0, at) + text + token.slice(at + text.length));
    const parts = fc.array(fc.base64String(), { minLength: 2, maxLength: 4 });
    const others = parts.map((encoded) => encoded.join('.'));
    const looks = vi.spyOn(store, 'run');
    await fc.assert(
      fc.asyncProperty(fc.oneof(changed, others, fc.string()), async (text) => {
        looks.mockClear();
        const read = await tokens.verify(text).catch((fault: unknown) => fault);
        expect(looks.mock.calls.length).toBeLessThanOrEqual(1);
        // The last bits of a signature's Base64 mean nothing.
        expect(read).toBeOneOf([
          expect.objectContaining({ code: 'unauthorized' }),
          expect.objectContaining({ owner, grant: given }),
        ]);
      }),
      { seed: 20_261_122, numRuns: 300 },
    );
  });

  test('one that is longer than any token: not valid, before its signature is looked at', async () => {
    const store = await openStore(await openRedis());
    const keys = new SigningKeys(store, { wallMs: Date.now });
    const tokens = new Tokens(keys);
    const signed = (padding: number) => {
      const claims = {
        key: 'key',
        peer: 'ada',
        rooms: '*',
        publish: false,
        a: 'a'.repeat(padding),
      };
      return keys.sign({ issuer: 'partyline', accountId: 7, claims, ttlSeconds: 60 });
    };
    const { jwt } = await signed(8000);
    expect(await tokens.verify(jwt)).toMatchObject({ owner: { accountId: 7, keyId: 'key' } });
    const { jwt: tooLong } = await signed(9000);
    const verify = vi.spyOn(keys, 'verify');
    await expect(tokens.verify(tooLong)).rejects.toMatchObject({ code: 'unauthorized' });
    expect(verify).not.toHaveBeenCalled();
  });

  test('a token lets its peer into its rooms, and into no other', async () => {
    const { gateway } = used;
    const token = await tokenOf(gateway, grant);
    const client = await connect(gateway, withToken(token));
    await client.next('joined');
    expect(await client.ask({ type: 'join', room: 'c' }, 'error')).toMatchObject({
      code: 'forbidden',
    });
    await client.ask({ type: 'join', room: 'b' }, 'joined');
    const elsewhere = await connect(gateway, withToken(token, { room: 'c' }));
    expect(await elsewhere.next('error')).toMatchObject({ code: 'forbidden' });
    await elsewhere.ask({ type: 'join', room: 'b' }, 'joined');
    for (let refused = 1; refused < 20; refused += 1) elsewhere.send({ type: 'join', room: 'c' });
    expect(await elsewhere.closed).toBe(4400);
    expect(elsewhere.messages.at(-1)).toMatchObject({ type: 'error', code: 'bad_message' });
    const another = await connect(gateway, withToken(token, { peer: 'eve' }));
    expect(await another.closed).toBe(4403);
  });

  test('a token without rooms lets its peer into the lobby and the echo room alone', async () => {
    const { gateway } = used;
    const token = await tokenOf(gateway, { ...grant, rooms: [] });
    const client = await connect(gateway, withToken(token, { room: '__lobby__' }));
    expect(await client.next('welcome')).toMatchObject({ room: '__lobby__' });
    expect(await client.ask({ type: 'join', room: 'a' }, 'error')).toMatchObject({
      code: 'forbidden',
    });
    await client.ask({ type: 'join', room: '__echo__' }, 'joined');
  });

  test('"publish": false: nothing of the peer is heard, and it is told so once', async () => {
    const { gateway } = used;
    const token = await tokenOf(gateway, { ...grant, rooms: '*', publish: false });
    const listener = await enter(gateway, 'bob');
    const silent = await connect(gateway, withToken(token));
    await silent.next('joined');
    for (let frame = 0; frame < 20; frame += 1) silent.sendAudio(Buffer.alloc(80, 0xf8));
    expect(await silent.next('error')).toMatchObject({ code: 'forbidden' });
    await silent.ask({ type: 'leave' }, 'left');
    await silent.ask({ type: 'join', room: 'a', media: 'webrtc' }, 'joined');
    const produce = {
      type: 'produce',
      transport_id: 'x',
      kind: 'audio',
      rtp_parameters: {
        codecs: [{ mimeType: 'audio/opus', clockRate: 48_000, channels: 2, payloadType: 111 }],
      },
    };
    const from = silent.messages.length;
    silent.send({ ...produce, id: 'speak' });
    expect(await silent.next('error', from)).toMatchObject({
      code: 'forbidden',
      reply_to: 'speak',
    });
    expect(silent.messages.slice(0, from).filter(({ type }) => type === 'error').length).toBe(1);
    expect(listener.frames).toEqual([]);
  });

  test('one that has expired, has been changed, or whose key was revoked: 4401', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const { id, apiKey, keyId } = await createAccount(redis, 'pro');
    const client = { url: gateway.url, apiKey };
    const brief = await tokenOf(client, { ...grant, ttl_seconds: 1 });
    const good = await tokenOf(client, grant);
    const [head, payload, signature] = good.split('.');
    const claims = JSON.parse(Buffer.from(payload!, 'base64url').toString()) as object;
    const changed = Buffer.from(JSON.stringify({ ...claims, rooms: '*' })).toString('base64url');
    const unsigned = Buffer.from('{"alg":"none"}').toString('base64url');
    await new Promise((resolve) => setTimeout(resolve, 1100));
    for (const token of [
      brief,
      `${head}.${changed}.${signature}`,
      `${unsigned}.${payload}.`,
      'nonsense',
    ]) {
      const refused = await connect(gateway, withToken(token));
      expect(await refused.closed).toBe(4401);
    }
    const inside = await connect(gateway, withToken(good));
    await inside.next('joined');
    await new Accounts(await openStore(redis)).revokeKey(id, keyId);
    expect(await inside.closed).toBe(4401);
    const late = await connect(gateway, withToken(good));
    expect(await late.closed).toBe(4401);
  });

  test('rotate() keeps a key for a week after it was replaced, however many follow', async () => {
    const store = await openStore(await openRedis());
    let wallMs = Date.UTC(2026, 0, 1);
    const keys = new SigningKeys(store, { wallMs: () => wallMs });
    const listed = () => store.run((client) => client.lLen(SIGNING_KEYS));
    const statement = { issuer: 'test', accountId: 7, claims: {} };
    const { jwt } = await keys.sign({ ...statement, ttlSeconds: LONGEST_LIFE_SECONDS });
    const reading = { what: 'JWT', issuer: 'test', parse: () => 'valid' };
    // The second may be the same once more, because the answer to the first was lost.
    for (let rotation = 0; rotation < 3; rotation += 1) await keys.rotate(false);
    wallMs += (LONGEST_LIFE_SECONDS - 1) * 1000;
    await keys.rotate(false);
    expect(await keys.verify(jwt, reading)).toMatchObject({ claims: 'valid', secondsLeft: 1 });
    expect(await listed()).toBe(5);
    wallMs += 2000;
    await keys.rotate(false);
    expect(await listed()).toBe(3);
  });

  test('rotate-token-key twice: tokens from before are good', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const token = await tokenOf(gateway, grant);
    await accounts(redis, 'rotate-token-key');
    await accounts(redis, 'rotate-token-key');
    await tokenOf(gateway, grant);
    const client = await connect(gateway, withToken(token));
    expect(await client.next('joined')).toMatchObject({ room: 'a' });
  });

  test('rotate-token-key --now closes who came with a key that is not kept any more', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url });
    const store = await openStore(redis);
    const token = await tokenOf(gateway, grant);
    const client = await connect(gateway, withToken(token));
    await client.next('joined');
    for (let rotation = 0; rotation < 2; rotation += 1) {
      await accounts(redis, 'rotate-token-key');
      const [newest = ''] = await store.client.lRange(SIGNING_KEYS, 0, 0);
      const old = { ...(JSON.parse(newest) as object), created_ms: 0 };
      await store.client.lSet(SIGNING_KEYS, 0, JSON.stringify(old));
    }
    const late = await connect(gateway, withToken(token));
    expect(await late.closed).toBe(4401);
    await client.ask({ type: 'leave' }, 'left');
    await accounts(redis, 'rotate-token-key', '--now');
    expect(await client.closed).toBe(4401);
  });

  test('after rotate-token-key --now no token is good on any node, and who came with one is closed', async () => {
    const redis = await openRedis();
    const [first, second] = await openNodes(2, { RESUME_MS: '60000' }, redis);
    const token = await tokenOf(first!, grant);
    const there = await connect(second!, withToken(token));
    await there.next('joined');
    const withKey = await enter(second!, 'bob');
    const ofEve = await tokenOf(first!, { ...grant, peer: 'eve' });
    const vanished = await connect(second!, withToken(ofEve, { peer: 'eve' }));
    await vanished.next('joined');
    vanished.vanish();
    await eventually('its place is kept', () => second!.counts().sessions === 2);
    const leaves = () => withKey.messages.filter(({ type }) => type === 'peer_left');
    expect(leaves()).toEqual([]);
    const measureSlowness = await watchSlowness();
    expect(await accounts(redis, 'rotate-token-key', '--now')).toContain('invitations have ended');
    const withdrawnMs = performance.now();
    expect(await there.closed).toBe(4401);
    const tookMs = performance.now() - withdrawnMs;
    expect(tookMs).toBeLessThan(5000 * (await measureSlowness()));
    const end = expect.objectContaining({ peer: 'eve', reason: 'unauthorized' });
    await expect.poll(leaves).toContainEqual(end);
    for (const node of [first!, second!]) {
      const late = await connect(node, withToken(token));
      expect(await late.closed).toBe(4401);
    }
    const again = await connect(second!, withToken(await tokenOf(first!, grant)));
    await again.next('joined');
    await withKey.ask({ type: 'leave' }, 'left');
  });

  test('one with as many long names of rooms as are accepted lets its peer in', async () => {
    const { gateway } = used;
    const rooms = Array.from({ length: 100 }, (_, i) => `${i}`.padStart(84, 'r'));
    const token = await tokenOf(gateway, { ...grant, rooms });
    expect(token.length).toBeGreaterThan(11_000);
    const client = await connect(gateway, { ...withToken(token), room: rooms[99] });
    expect(await client.next('joined')).toMatchObject({ room: rooms[99] });
  });

  test.each([
    [{ ...grant, ttl_seconds: 0 }],
    [{ ...grant, peer: '__ada' }],
    [{ ...grant, rooms: ['__lobby__'] }],
    [{ ...grant, rooms: ['a\nb'] }],
    [{ ...grant, rooms: 'all' }],
    [{ ...grant, rooms: Array.from({ length: 100 }, () => '🚕'.repeat(128)) }],
    [{ peer: 'ada' }],
    [{ ...grant, admin: true }],
  ])('POST /api/tokens with %j is 400', async (body) => {
    expect((await ask(used.gateway, body)).status).toBe(400);
  });
});

describe('authentication', () => {
  test('a native client may send its key in the Authorization header', async () => {
    const { gateway } = used;
    const headers = { authorization: `Bearer ${gateway.apiKey}` };
    const client = await connect(gateway, { api_key: undefined }, headers);
    await client.next('joined');
    const refused = await connect(gateway, { api_key: undefined }, { authorization: 'Bearer no' });
    expect(await refused.closed).toBe(4401);
  });

  test('too many failures: told to wait; a good key is let in all the same', async () => {
    const gateway = await openGateway({ AUTH_FAILURES_PER_ADDRESS: '5' });
    const me = `${gateway.url}/api/me`;
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 8; attempt += 1) {
      statuses.push((await rest(me, `pl_guess-${attempt}`)).status);
    }
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429, 429]);
    const limited = await rest(me, 'pl_another');
    expect(Number(limited.headers.get('retry-after'))).toBeGreaterThan(0);
    const client = await connect(gateway, { api_key: 'pl_wrong' });
    expect(await client.next('error')).toMatchObject({ code: 'rate_limited', retryable: true });
    expect((await rest(me, gateway.apiKey)).status).toBe(200);
  });

  test('too many requests of an account: 429 with Retry-After, and only of that account', async () => {
    const redis = await openRedis();
    const gateway = await openGateway({ REDIS_URL: redis.url, REQUESTS_PER_ACCOUNT: '3' });
    const { apiKey } = await createAccount(redis, 'free');
    const me = `${gateway.url}/api/me`;
    for (let request = 0; request < 3; request += 1) {
      expect((await rest(me, gateway.apiKey)).status).toBe(200);
    }
    const limited = await rest(me, gateway.apiKey);
    expect(limited.status).toBe(429);
    expect(limited.body).toMatchObject({ code: 'rate_limited' });
    expect((await rest(me, apiKey)).status).toBe(200);
  });

  test('/api/docs shows every REST route', async () => {
    const { gateway } = used;
    const response = await fetch(`${gateway.url}/api/docs/json`);
    const { paths } = (await response.json()) as { paths: Record<string, object> };
    expect(Object.keys(paths).toSorted()).toEqual([
      '/api/admin/accounts',
      '/api/admin/accounts/{id}',
      '/api/admin/accounts/{id}/keys',
      '/api/admin/accounts/{id}/keys/{key_id}',
      '/api/admin/accounts/{id}/peers/{peer}/kick',
      '/api/admin/accounts/{id}/peers/{peer}/mute',
      '/api/admin/accounts/{id}/usage',
      '/api/admin/accounts/{id}/webhook',
      '/api/admin/drain',
      '/api/admin/nodes',
      '/api/admin/nodes/self',
      '/api/admin/nodes/{node}/drain',
      '/api/admin/rooms',
      '/api/admin/rooms/{account_id}/{room}',
      '/api/invites',
      '/api/invites/redeem',
      '/api/me',
      '/api/tokens',
      '/api/usage',
      '/healthz',
      '/readyz',
      '/whep/sessions/{id}',
      '/whep/{room}',
      '/whip/sessions/{id}',
      '/whip/{room}',
    ]);
    const { get } = paths['/api/me'] as { get: { responses: Record<string, object> } };
    expect(Object.keys(get.responses)).toEqual(['200', 'default']);
    const page = await fetch(`${gateway.url}/api/docs`);
    expect(await page.text()).toContain('swagger');
  });
});
