import { spawnSync } from 'node:child_process';
import { mkdir, mkdtemp, open as openFile, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { openDemoAccount } from '../../src/accounts/demo-account.ts';
import {
  apiKeyHashesKey,
  apiKeyRecordKey,
  DEMO_ACCOUNT_ID,
  DEMO_ACCOUNT_TURN,
} from '../../src/store/keys.ts';
import type { Redis } from '../../src/store/redis.ts';
import { useStack } from '../support/use-stack.ts';

const { openRedis, openStore, cleanUps } = useStack();

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-demo-'));
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Opens the demo account as a start does; what was warned of is kept. */
async function open(redis: Redis, dataDir: string, settings: object = {}) {
  const warnings: string[] = [];
  const local = { DEMO_ACCOUNT: true, HOST: '127.0.0.1', TRUST_PROXY: '', TLS_CERT: '' };
  const log = { warn: (_fields: unknown, message?: string) => warnings.push(message ?? '') };
  const demo = await openDemoAccount(redis, { ...local, DATA_DIR: dataDir, ...settings }, log);
  return { demo, warnings };
}

/**
 * A data folder whose key is a named pipe: a start that reads it waits until the pipe is given a text and closed, which
 * `writer` resolves to.
 */
async function newFolderWithPipe() {
  const folder = await newFolder();
  const keyFile = join(folder, 'demo-key');
  expect(spawnSync('mkfifo', [keyFile]).status).toBe(0);
  return { folder, keyFile, writer: openFile(keyFile, 'w') };
}

async function openAll() {
  const redis = await openStore(await openRedis());
  const accounts = new Accounts(redis);
  const owners = async (...keys: (string | undefined)[]) =>
    Promise.all(keys.map(async (key) => (await accounts.findByKey(key ?? ''))?.account.id));
  return { redis, accounts, owners };
}

test('an empty Redis has no account but the demo account', async () => {
  const { redis, accounts } = await openAll();
  expect(await accounts.hasAny()).toBe(false);
  await open(redis, await newFolder());
  expect(await accounts.hasAny()).toBe(false);
  await accounts.create({ name: 'Ada', email: 'ada@example.com', plan: 'pro' });
  expect(await accounts.hasAny()).toBe(true);
});

test('the same account and key at every start', async () => {
  const { redis, accounts } = await openAll();
  const folder = await newFolder();
  const first = await open(redis, folder);
  expect(first.demo).toMatchObject({ account: { id: 1, plan: 'pro' }, isNew: true });
  const again = await open(redis, folder);
  expect(again.demo).toEqual({ ...first.demo, isNew: false });
  expect(await readFile(first.demo!.keyFile, 'utf8')).toBe(first.demo!.apiKey);
  expect((await stat(first.demo!.keyFile)).mode & 0o077).toBe(0);
  expect(await accounts.list()).toHaveLength(1);
});

test('a backup that is restored without its key: the same account gets another key', async () => {
  const { redis, accounts, owners } = await openAll();
  const before = await open(redis, await newFolder());
  const restored = await open(redis, await newFolder());
  expect(restored.demo).toMatchObject({ account: { id: 1 }, isNew: true });
  expect(restored.demo?.apiKey).not.toBe(before.demo?.apiKey);
  expect(await owners(before.demo?.apiKey, restored.demo?.apiKey)).toEqual([1, 1]);
  expect(await accounts.list()).toHaveLength(1);
});

test('a backup from before the key was made, or a key that was revoked: the same account gets another key', async () => {
  const { redis, accounts, owners } = await openAll();
  const folder = await newFolder();
  const before = await open(redis, folder);
  const [key] = await accounts.listKeys(1);
  await accounts.revokeKey(1, key!.id);
  const after = await open(redis, folder);
  expect(after.demo).toMatchObject({ account: { id: 1 }, isNew: true });
  expect(await owners(before.demo?.apiKey, after.demo?.apiKey)).toEqual([undefined, 1]);
  expect(await accounts.list()).toHaveLength(1);
});

test('the account of an earlier version, which noted no id, is found', async () => {
  const { redis, accounts } = await openAll();
  await open(redis, await newFolder());
  await redis.run((client) => client.del(DEMO_ACCOUNT_ID));
  expect((await open(redis, await newFolder())).demo?.account.id).toBe(1);
  expect(await accounts.list()).toHaveLength(1);
});

test('another account that happens to be the first is not taken for the demo account', async () => {
  const { redis, accounts } = await openAll();
  await accounts.create({ name: 'Ada', email: 'ada@example.com', plan: 'pro' });
  expect((await open(redis, await newFolder())).demo?.account.id).toBe(2);
});

test('gateways that start at once on one Redis have one account, and a key each', async () => {
  const { redis, accounts, owners } = await openAll();
  const folders = await Promise.all([newFolder(), newFolder(), newFolder()]);
  const opened = await Promise.all(folders.map((folder) => open(redis, folder)));
  const keys = opened.map(({ demo }) => demo?.apiKey);
  expect(new Set(keys).size).toBe(3);
  expect(await owners(...keys)).toEqual([1, 1, 1]);
  expect(await accounts.list()).toHaveLength(1);
});

test('starts that each have an empty folder make a bounded number of keys; the least recently used go first', async () => {
  const { redis, accounts, owners } = await openAll();
  const byOperator = await accounts.addKey((await open(redis, await newFolder())).demo!.account.id);
  const [used, unused] = [await newFolder(), await newFolder()];
  const keys = [];
  for (const folder of [used, unused]) keys.push((await open(redis, folder)).demo?.apiKey);
  const lastUsedAt = new Date(Date.now() - 120_000).toISOString();
  for (const hash of await redis.client.sMembers(apiKeyHashesKey(1)))
    await redis.client.hSet(apiKeyRecordKey(hash), 'last_used_at', lastUsedAt);
  await open(redis, used);
  for (let starts = 0; starts < 49; starts += 1) await open(redis, await newFolder());
  expect(await owners(...keys, byOperator.apiKey)).toEqual([1, undefined, 1]);
  expect(await accounts.listKeys(1)).toHaveLength(51);
  expect((await open(redis, unused)).demo?.isNew).toBe(true);
  expect(await accounts.listKeys(1)).toHaveLength(51);
});

test('a key that cannot be written to its file is not valid', async () => {
  const { redis, accounts } = await openAll();
  await open(redis, await newFolder());
  const { folder, keyFile, writer } = await newFolderWithPipe();
  const opening = open(redis, folder);
  const pipe = await writer;
  await rm(keyFile);
  await mkdir(keyFile);
  await pipe.writeFile('no key of this Redis');
  await pipe.close();
  await expect(opening).rejects.toMatchObject({ code: 'EISDIR' });
  expect(await accounts.listKeys(1)).toHaveLength(1);
});

test('a start that took longer than its turn leaves the turn to the gateway that has it by then', async () => {
  const { redis } = await openAll();
  const first = await open(redis, await newFolder());
  const { folder, writer } = await newFolderWithPipe();
  const opening = open(redis, folder);
  const pipe = await writer;
  const turn = DEMO_ACCOUNT_TURN;
  await redis.run((client) => client.set(turn, 'of another gateway'));
  await pipe.writeFile(first.demo!.apiKey);
  await pipe.close();
  expect((await opening).demo).toMatchObject({ apiKey: first.demo!.apiKey, isNew: false });
  expect(await redis.run((client) => client.get(turn))).toBe('of another gateway');
});

test('one that the operator has closed stays closed, and no other is made', async () => {
  const { redis, accounts } = await openAll();
  const folder = await newFolder();
  await open(redis, folder);
  await accounts.update(1, { status: 'closed' });
  for (const each of [folder, await newFolder()]) {
    expect(await open(redis, each, { HOST: '0.0.0.0' })).toEqual({ demo: undefined, warnings: [] });
  }
  expect(await accounts.list()).toHaveLength(1);
});

test('one whose e-mail the operator has changed is still the demo account: warned of, and closed for good', async () => {
  const { redis, accounts } = await openAll();
  const folder = await newFolder();
  await open(redis, folder);
  await accounts.update(1, { name: 'Ours', email: 'ops@example.com' });
  expect((await open(redis, await newFolder())).demo).toMatchObject({ account: { id: 1 } });
  const unwanted = { HOST: '0.0.0.0', DEMO_ACCOUNT: false };
  expect((await open(redis, folder, unwanted)).warnings).toHaveLength(1);
  await accounts.update(1, { status: 'closed' });
  for (const each of [folder, await newFolder()]) {
    expect(await open(redis, each, { HOST: '0.0.0.0' })).toEqual({ demo: undefined, warnings: [] });
  }
  expect(await accounts.list()).toHaveLength(1);
});

test('where others reach the node it is warned of, also when it is not wanted any more, until it is closed', async () => {
  const { redis, accounts } = await openAll();
  const folder = await newFolder();
  expect((await open(redis, folder)).warnings).toEqual([]);
  const told = expect.stringMatching(/DEMO_ACCOUNT=false, and .* close 1$/) as string;
  for (const settings of [
    { HOST: '0.0.0.0' },
    { TRUST_PROXY: '10.0.0.0/8' },
    { HOST: '0.0.0.0', DEMO_ACCOUNT: false },
  ]) {
    expect((await open(redis, folder, settings)).warnings).toEqual([told]);
  }
  await accounts.update(1, { status: 'suspended' });
  expect((await open(redis, folder, { HOST: '0.0.0.0' })).warnings).toEqual([]);
});
