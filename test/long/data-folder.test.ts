import { spawnSync } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient } from 'redis';
import { afterEach, describe, expect, test } from 'vitest';
import { Accounts } from '../../src/accounts/accounts.ts';
import { DEFAULT_TIMINGS } from '../../config/timings.ts';
import { Redis } from '../../src/store/redis.ts';
import {
  commandsOn,
  CREATE,
  mountSmallDisk,
  redisServersIn,
  runAccounts,
  runWorker,
  spawnAccounts,
} from '../support/data-folder.ts';
import { eventually, silentLog } from '../support/gateway.ts';
import { GatewayProcess, timingsOf, untilEnded } from '../support/process.ts';
import { TestRedis } from '../support/redis.ts';

const cleanUps: (() => Promise<unknown> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

const OPERATOR_KEY = 'operator-key-of-the-tests';
/** For whoever meets a Redis that does not answer. */
const IMPATIENT = timingsOf({
  redis: { startWithinMs: 2500, ownerWaitMs: 400, checkServerEveryMs: 200 },
});
/** For whoever meets a folder in use. */
const IN_A_HURRY = timingsOf({ redis: { ownerWaitMs: 400 } });
/** For a gateway whose own Redis is to hang for a while. */
const PATIENT = timingsOf({ redis: { checkServerEveryMs: 60_000 } });

async function start(
  environment: Record<string, string> = {},
  dataDir?: string,
  commandBefore?: string[],
) {
  const gateway = await GatewayProcess.start(
    { USAGE_WORKERS: '0', ...environment },
    dataDir,
    commandBefore,
  );
  cleanUps.push(() => gateway.dispose());
  return gateway;
}

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-folder-'));
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

async function create(dataDir: string): Promise<{ id: number; apiKey: string }> {
  const { code, stdout } = await runAccounts({ DATA_DIR: dataDir }, ...CREATE);
  expect(code).toBe(0);
  const { id, api_key: apiKey } = JSON.parse(stdout) as { id: number; api_key: string };
  return { id, apiKey };
}

async function idsIn(dataDir: string): Promise<number[]> {
  const { stdout } = await runAccounts({ DATA_DIR: dataDir }, 'list', '--json');
  return (JSON.parse(stdout) as { id: number }[]).map(({ id }) => id);
}

const COMMANDS = commandsOn('1');

const statusOf = async (url: string) => (await fetch(url)).status;

/** Takes all that is left of a small disk. */
const fill = (folder: string) =>
  spawnSync('dd', ['if=/dev/zero', `of=${join(folder, 'filler')}`, 'bs=4k', 'count=5000']);

/** More than fits into what the last block of the append-only file has left. */
async function writeMuch(dataDir: string): Promise<void> {
  const client = createClient({ socket: { path: join(dataDir, 'redis.sock'), tls: false } });
  await client.connect();
  await client.set('much', 'x'.repeat(20_000));
  await client.close();
}

const REFUSED = {
  code: 1,
  stderr: expect.stringContaining('No space left on device') as string,
};
/** Commands that only read work; a missing key is seen without a write. */
const EXPECTED_ON_A_FULL_DISK: Record<string, object> = {
  list: { code: 0 },
  show: { code: 0 },
  usage: { code: 0 },
  'key-revoke': { code: 2 },
};

describe('one owner of a data folder', () => {
  test('a full disk: one server, no id twice, and everybody is told in the words of Redis', async ({
    skip,
  }) => {
    const disk = await mountSmallDisk();
    if (!disk) return skip('a disk to fill cannot be mounted here');
    cleanUps.push(() => disk.unmount());
    const { folder } = disk;
    const gateway = await start({ OPERATOR_KEY }, folder);
    const { url, api_key: apiKey } = await gateway.ready();
    const servers = await redisServersIn(folder);
    expect(servers).toHaveLength(1);
    fill(folder);
    await writeMuch(folder);
    await eventually('it is not ready', async () => (await statusOf(`${url}/readyz`)) === 503);
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toContain('\npartyline_redis_up 0\n');
    const environment = { DATA_DIR: folder, ...IN_A_HURRY };
    const ended = await Promise.all(
      COMMANDS.map((words) =>
        (words === CREATE ? spawnAccounts : runAccounts)(environment, ...words),
      ),
    );
    for (const [index, words] of COMMANDS.entries()) {
      const expected = EXPECTED_ON_A_FULL_DISK[words[0]!] ?? REFUSED;
      expect({ words, ...ended[index] }).toMatchObject(expected);
    }
    expect(await redisServersIn(folder)).toEqual(servers);
    const answer = await fetch(`${url}/api/admin/accounts`, {
      method: 'POST',
      headers: { authorization: `Bearer ${OPERATOR_KEY}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: 'Ada', email: 'ada@example.com', plan: 'pro' }),
    });
    expect(answer.status).toBe(503);
    expect(((await answer.json()) as { detail: string }).detail).toContain('No space left');
    const second = await start(IN_A_HURRY, folder);
    expect(await second.exitCode()).toBe(1);
    expect(second.output).toMatch(/another gateway uses .*set DATA_DIR or REDIS_URL/);
    expect(await redisServersIn(folder)).toEqual(servers);
    await rm(join(folder, 'filler'));
    await eventually('it is ready', async () => (await statusOf(`${url}/readyz`)) === 200);
    const headers = { authorization: `Bearer ${(await create(folder)).apiKey}` };
    const me = await (await fetch(`${url}/api/me`, { headers })).json();
    expect(me).toMatchObject({ account: { name: 'Ada' } });
    const demo = { authorization: `Bearer ${apiKey}` };
    const own = await (await fetch(`${url}/api/me`, { headers: demo })).json();
    expect(own).toMatchObject({ account: { id: 1, name: 'Demo' } });
  });

  test('a full disk at a start: it ends with the words of Redis', async ({ skip }) => {
    const disk = await mountSmallDisk();
    if (!disk) return skip('a disk to fill cannot be mounted here');
    cleanUps.push(() => disk.unmount());
    fill(disk.folder);
    const gateway = await start({}, disk.folder);
    expect(await gateway.exitCode()).toBe(1);
    expect(gateway.output).toContain('No space left on device');
  });

  test('a Redis that hangs: commands and a second start end with the cause, and start no other', async () => {
    const gateway = await start(PATIENT);
    const { url } = await gateway.ready();
    const { dataDir } = gateway;
    const servers = await redisServersIn(dataDir);
    process.kill(servers[0]!, 'SIGSTOP');
    const environment = { DATA_DIR: dataDir, ...IMPATIENT };
    const ended = await Promise.all([
      ...COMMANDS.map((words) => runAccounts(environment, ...words)),
      spawnAccounts(environment, ...CREATE),
      runWorker(environment),
    ]);
    for (const { code, stderr } of ended) {
      expect({ code, stderr }).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(/(does|did) not answer/) as string,
      });
    }
    const second = await start(IMPATIENT, dataDir);
    expect(await second.exitCode()).toBe(1);
    expect(second.output).toMatch(/another gateway uses .*its redis-server does not answer/);
    expect(await redisServersIn(dataDir)).toEqual(servers);
    process.kill(servers[0]!, 'SIGCONT');
    await eventually('it is ready', async () => (await statusOf(`${url}/readyz`)) === 200);
    expect((await create(dataDir)).id).toBe(2);
    expect(await redisServersIn(dataDir)).toEqual(servers);
  });

  test('the lock outlives a gateway that is killed, as long as its Redis lives', async () => {
    const gateway = await start(PATIENT);
    await gateway.ready();
    const { dataDir } = gateway;
    const servers = await redisServersIn(dataDir);
    process.kill(servers[0]!, 'SIGSTOP');
    gateway.child.kill('SIGKILL');
    await gateway.exitCode();
    const refused = await start(IMPATIENT, dataDir);
    expect(await refused.exitCode()).toBe(1);
    expect(refused.output).toMatch(/another gateway uses .*its redis-server does not answer/);
    expect(await redisServersIn(dataDir)).toEqual(servers);
    process.kill(servers[0]!, 'SIGCONT');
    await untilEnded(servers);
    const next = await start({}, dataDir);
    expect(await next.ready()).toMatchObject({ account_id: 1 });
  });

  test('a second start in another container, which sees no process of the first, is refused', async ({
    skip,
  }) => {
    const container = ['unshare', '--pid', '--fork', '--mount-proc', '--kill-child'];
    if (spawnSync(container[0]!, [...container.slice(1), 'true']).status !== 0) {
      return skip('namespaces cannot be made here');
    }
    const gateway = await start();
    await gateway.ready();
    const second = await start(IN_A_HURRY, gateway.dataDir, container);
    expect(await second.exitCode()).toBe(1);
    expect(second.output).toContain('another gateway uses');
    expect(await redisServersIn(gateway.dataDir)).toHaveLength(1);
  });

  test('a server that knows nothing of the lock is not put beside, nor its socket taken away', async () => {
    const folder = await newFolder();
    const redis = await TestRedis.startAt(folder);
    cleanUps.push(() => redis.kill());
    const gateway = await start(IN_A_HURRY, folder);
    expect(await gateway.exitCode()).toBe(1);
    expect(gateway.output).toContain('another gateway uses');
    expect(await create(folder)).toMatchObject({ id: 1 });
    expect(await redisServersIn(folder)).toHaveLength(1);
  });

  test('commands that come at once take turns where no gateway runs', async () => {
    const folder = await newFolder();
    const environment = { DATA_DIR: folder };
    const made = await Promise.all(
      [spawnAccounts, spawnAccounts, runAccounts, runAccounts].map((run) =>
        run(environment, ...CREATE),
      ),
    );
    const ids = made.map(({ stdout }) => (JSON.parse(stdout) as { id: number }).id);
    expect(new Set(ids).size).toBe(4);
    expect(new Set(await idsIn(folder))).toEqual(new Set(ids));
  });
});

describe('ids of accounts', () => {
  test.each(['appendonlydir', '.'])(
    'are not given again when %s is restored from an older backup',
    async (part) => {
      const folder = await newFolder();
      expect((await create(folder)).id).toBe(1);
      // Consecutive, as long as nothing was restored.
      expect((await create(folder)).id).toBe(2);
      const backup = await newFolder();
      await cp(join(folder, part), join(backup, part), { recursive: true });
      const lost = await create(folder);
      await rm(join(folder, part), { recursive: true });
      await cp(join(backup, part), join(folder, part), { recursive: true });
      const next = await create(folder);
      expect(next.id).toBeGreaterThan(lost.id);
      expect(await idsIn(folder)).toEqual([1, 2, next.id]);
    },
  );

  test("are not given again when an operator's Redis is restored from an older backup", async () => {
    const folder = await newFolder();
    const backup = await newFolder();
    const redis = await TestRedis.start(folder);
    cleanUps.push(() => redis.kill());
    const createOne = async () => {
      const store = await Redis.connect({ url: redis.url }, silentLog, DEFAULT_TIMINGS.redis);
      const account = { name: 'Ada', email: 'ada@example.com', plan: 'pro' } as const;
      const { id } = await new Accounts(store).create(account);
      await store.close();
      return id;
    };
    expect(await createOne()).toBe(1);
    await cp(folder, backup, { recursive: true });
    const lost = [await createOne(), await createOne()];
    expect(lost).toEqual([2, 3]);
    await redis.kill();
    await rm(folder, { recursive: true });
    await cp(backup, folder, { recursive: true });
    await redis.restart();
    expect(await createOne()).toBeGreaterThan(3);
  });
});

describe('the content of a data folder', () => {
  const modesOf = async (folder: string) => {
    const names = await readdir(folder, { recursive: true });
    const files = await Promise.all(names.map((name) => stat(join(folder, name))));
    return [await stat(folder), ...files].map(({ mode }) => mode & 0o077);
  };

  test('is for its owner only, whatever the umask', async () => {
    const parent = await newFolder();
    const folder = join(parent, 'made', 'by', 'the gateway');
    const umask = ['sh', '-c', 'umask 000; exec "$@"', 'sh'];
    const gateway = await start({}, folder, umask);
    await gateway.ready();
    await create(folder);
    const modes = await modesOf(folder);
    expect(modes.length).toBeGreaterThan(6);
    expect(new Set(modes)).toEqual(new Set([0]));
  });

  test('is taken away from others if they could read it before', async () => {
    const gateway = await start();
    await gateway.ready();
    gateway.child.kill('SIGTERM');
    await gateway.exitCode();
    const { dataDir } = gateway;
    const names = await readdir(dataDir, { recursive: true });
    for (const name of ['.', ...names]) await chmod(join(dataDir, name), 0o777);
    const again = await start({}, dataDir);
    await again.ready();
    expect(new Set(await modesOf(dataDir))).toEqual(new Set([0]));
  });

  test("stays another user's where root runs the gateway", async ({ skip }) => {
    if (process.getuid?.() !== 0) return skip('only root can run a program as another user');
    const folder = join(await newFolder(), 'data');
    await mkdir(folder);
    await chmod(join(folder, '..'), 0o755);
    spawnSync('chown', ['nobody', folder]);
    await create(folder);
    const gateway = await start({}, folder);
    await gateway.ready();
    const { uid } = await stat(folder);
    expect(uid).toBeGreaterThan(0);
    const names = await readdir(folder, { recursive: true });
    for (const name of names) {
      const file = await stat(join(folder, name));
      expect({ name, uid: file.uid }).toEqual({ name, uid });
    }
    gateway.child.kill('SIGTERM');
    expect(await gateway.exitCode()).toBe(0);
  });

  test('is not mixed with the files of others, and what cannot be read is named', async ({
    skip,
  }) => {
    const shared = await newFolder();
    await chmod(shared, 0o1777);
    const gateway = await start({}, shared);
    expect(await gateway.exitCode()).toBe(1);
    expect(gateway.output).toContain(`DATA_DIR ${shared} cannot be used: others use this folder`);
    const folder = await newFolder();
    await mkdir(join(folder, 'appendonlydir'));
    await writeFile(join(folder, 'appendonlydir', 'some.aof'), '');
    if (process.getuid?.() !== 0) return skip('only root can make files of another user');
    spawnSync('chown', ['nobody', folder, join(folder, 'appendonlydir')]);
    const asNobody = ['setpriv', '--reuid', 'nobody', '--clear-groups', '--'];
    const locked = await start({}, folder, asNobody);
    expect(await locked.exitCode()).toBe(1);
    expect(locked.output).toMatch(/DATA_DIR .* cannot be used: .*appendonlydir\/some\.aof/);
  });
});
