import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { TestClient } from '../support/client.ts';
import { eventually } from '../support/gateway.ts';
import { fencedCommands } from '../support/page-commands.ts';
import { GatewayProcess, timingsOf } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';

/** The backup of docs/operations/back-up.md, rehearsed: the disk is lost, and what was saved is restored. */

const PROJECT = join(import.meta.dirname, '../..');
const SCRIPT = join(PROJECT, 'scripts/backup.sh');
const OPERATOR_KEY = 'operator-key-of-the-tests';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

const backup = (...words: string[]) => execFileSync(SCRIPT, words, { stdio: 'pipe' });

async function folderFor(name: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `partyline-${name}-`));
  cleanUps.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

async function startGateway(dataDir: string, environment: Record<string, string> = {}) {
  const gateway = await GatewayProcess.start(
    { OPERATOR_KEY, ...timingsOf({ usage: { writeEveryMs: 200 } }), ...environment },
    dataDir,
  );
  cleanUps.push(() => gateway.dispose());
  const { url, api_key: apiKey } = await gateway.ready();
  const ask = async <T>(path: string, body?: object) => {
    const headers = { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' };
    const request = body ? { method: 'POST', body: JSON.stringify(body) } : {};
    const answer = await fetch(`${url}/api/admin/${path}`, { headers, ...request });
    expect(answer.ok).toBe(true);
    return (await answer.json()) as T;
  };
  const create = async (name: string) => {
    const account = { name, email: 'ops@example.com', plan: 'pro' };
    const { id } = (await ask<{ account: { id: number } }>('accounts', account)).account;
    return id;
  };
  const list = async () => {
    const { accounts } = await ask<{ accounts: { id: number; name: string }[] }>('accounts');
    return accounts.map(({ id, name }) => ({ id, name }));
  };
  const usedMinutes = async () => {
    const headers = { authorization: `Bearer ${apiKey}` };
    const me = (await (await fetch(`${url}/api/me`, { headers })).json()) as {
      summary: { total_minutes: number };
    };
    return me.summary.total_minutes;
  };
  return { gateway, url, apiKey, create, list, usedMinutes };
}

/** Lets a command of the page write and read another archive than the one that it names. */
const replaceArchive = (command: string, archive: string) =>
  command.replace(/partyline-.*\.tar\.gz/, archive);

/** A peer is in a room until something of it has been counted. */
async function spendTime({ url, apiKey, usedMinutes }: Awaited<ReturnType<typeof startGateway>>) {
  const client = await TestClient.connect(url, { room: 'a', peer: 'p', api_key: apiKey });
  await client.next('joined');
  await eventually('time is counted', async () => (await usedMinutes()) > 0, 20_000);
  await client.close();
}

test('the own Redis of a gateway: its disk is lost, and accounts and minutes are there again, and no id is given twice', async () => {
  const dataDir = await folderFor('disk');
  const archive = join(await folderFor('archive'), 'partyline.tar.gz');
  const before = await startGateway(dataDir);
  await before.create('Ada');
  await spendTime(before);
  const saved = await before.list();
  const savedMinutes = await before.usedMinutes();
  backup('save', join(dataDir, 'redis.sock'), dataDir, archive);
  const lost = [await before.create('lost'), await before.create('lost too')];
  // The disk is lost.
  await before.gateway.dispose();
  const newDisk = await folderFor('new-disk');
  backup('restore', archive, newDisk);
  const after = await startGateway(newDisk);
  expect(after.apiKey).toBe(before.apiKey);
  expect(await after.list()).toEqual(saved);
  expect(await after.usedMinutes()).toBe(savedMinutes);
  const next = await after.create('next');
  expect(next).toBeGreaterThan(Math.max(...lost));
  // A restore never overwrites.
  const again = spawnSync(SCRIPT, ['restore', archive, newDisk]);
  expect(again.status).toBe(1);
  expect(again.stderr.toString()).toContain('is there: stop that Redis');
});

test("an operator's Redis, saved while clients come and go", async () => {
  const redisDir = await folderFor('redis');
  const archive = join(await folderFor('archive'), 'partyline.tar.gz');
  const redis = await TestRedis.start(redisDir);
  cleanUps.push(() => redis.kill());
  const dataDir = await folderFor('data');
  const before = await startGateway(dataDir, { REDIS_URL: redis.url });
  const ids: number[] = [];
  const creating = (async () => {
    while (ids.length < 200) ids.push(await before.create(`account ${ids.length}`));
  })();
  await eventually('some are there', () => ids.length > 20);
  const atLeast = [...ids];
  // Those for compose run in its own test.
  const commands = fencedCommands('back-up.md');
  const [save = '', restore = ''] = commands.filter((each) => each.startsWith('scripts/'));
  const [makeFolder = ''] = commands.filter((each) => each.startsWith('install '));
  const run = (command: string, folder: string) =>
    execFileSync(
      'sh',
      ['-euc', replaceArchive(command, archive).replace('/var/lib/redis', folder)],
      {
        cwd: PROJECT,
        env: { ...process.env, REDIS_URL: redis.url },
        stdio: 'pipe',
      },
    );
  run(save, redisDir);
  await creating;
  await before.gateway.dispose();
  await redis.kill();
  const newDir = join(await folderFor('new-disk'), 'redis');
  // The user of Debian's package is not on every machine.
  run(makeFolder.replace('redis -g redis', 'nobody -g nogroup'), newDir);
  // TestRedis has the setting that the script asks for.
  expect(run(restore, newDir).toString()).toMatch(
    /belong to nobody: [^]*start Redis with "appendonly yes"/,
  );
  const restored = await TestRedis.start(newDir);
  cleanUps.push(() => restored.kill());
  const after = await startGateway(await folderFor('data'), { REDIS_URL: restored.url });
  const there = new Set((await after.list()).map(({ id }) => id));
  expect(atLeast.filter((id) => !there.has(id))).toEqual([]);
  expect(await after.create('next')).toBeGreaterThan(Math.max(...ids));
});

test('mistakes are reported', async () => {
  const folder = await folderFor('nothing');
  const wrong = (...words: string[]) => {
    const { status, stderr } = spawnSync(SCRIPT, words);
    return [status, stderr.toString()];
  };
  expect(wrong()).toEqual([2, expect.stringContaining('save REDIS FOLDER ARCHIVE')]);
  expect(wrong('save', 'redis://127.0.0.1:1', folder, join(folder, 'a'))).toEqual([
    1,
    expect.stringContaining('there is no'),
  ]);
  const archive = join(await folderFor('archive'), 'other.tar.gz');
  execFileSync('tar', ['-czf', archive, '-C', folder, '.']);
  expect(wrong('restore', archive, folder)).toEqual([
    1,
    expect.stringContaining('is not a backup'),
  ]);
});
