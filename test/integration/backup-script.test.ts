import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, open, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { eventually } from '../support/gateway.ts';
import { TestRedis } from '../support/redis.ts';

/** Addresses and folders that `scripts/backup.sh` takes and refuses; test/deploy/backup.test.ts restores what it saves. */

const SCRIPT = join(import.meta.dirname, '../../scripts/backup.sh');

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

async function newFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-backup-'));
  cleanUps.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

function save(address: string, folder: string) {
  const words = ['save', address, folder, join(folder, 'partyline.tar.gz')];
  const { status, stderr } = spawnSync(SCRIPT, words, { encoding: 'utf8' });
  return { status, stderr };
}

test('a server that cannot be reached: its address and password are not printed', async () => {
  const folder = await newFolder();
  await mkdir(join(folder, 'appendonlydir'));
  const { status, stderr } = save('redis://:secret@127.0.0.1:1', folder);
  expect(status).toBe(1);
  expect(stderr).toContain('backup: CONFIG GET auto-aof-rewrite-percentage: ');
  expect(stderr).not.toContain('secret');
});

test('the address of sentinels is refused', async () => {
  const { status, stderr } = save('redis+sentinel://:secret@10.0.0.5/main', await newFolder());
  expect(status).toBe(1);
  expect(stderr).toBe('backup: give the address of a server (redis://…), not of its sentinels\n');
});

/** Starts a Redis whose file has 300 KB that gzip cannot compress, more than a pipe holds. */
async function startFilled() {
  const folder = await newFolder();
  const redis = await TestRedis.startAt(folder);
  cleanUps.push(() => redis.kill());
  const socket = join(folder, 'redis.sock');
  const run = (...words: string[]) =>
    execFileSync('redis-cli', ['-s', socket, ...words], { encoding: 'utf8' });
  run('CONFIG', 'SET', 'appendonly', 'yes');
  const commands = Array.from(
    { length: 30 },
    (_, i) => `SET "key ${i}" ${randomBytes(10_000).toString('base64')}\n`,
  );
  execFileSync('redis-cli', ['-e', '-s', socket], { input: commands.join('') });
  const untilWritten = () =>
    eventually(
      'the file is written',
      () => !/aof_rewrite_(in_progress|scheduled):1/.test(run('INFO', 'persistence')),
    );
  return { folder, socket, run, untilWritten };
}

test('a file that Redis rewrites while it is saved, and a second backup meanwhile: no archive of either', async () => {
  const { folder, socket, run, untilWritten } = await startFilled();
  const [archives, others] = [await newFolder(), await newFolder()];
  const archive = join(archives, 'partyline.tar.gz');
  // The archive is written as slowly as this test reads it.
  execFileSync('mkfifo', [`${archive}.part`]);
  const saving = spawn(SCRIPT, ['save', socket, folder, archive]);
  const ended = once(saving, 'close');
  let stderr = '';
  saving.stderr.on('data', (text: Buffer) => (stderr += text.toString()));
  // The pipe opens when tar has begun.
  const pipe = await open(`${archive}.part`);
  const second = spawnSync(SCRIPT, ['save', socket, folder, join(others, 'partyline.tar.gz')], {
    encoding: 'utf8',
  });
  expect(second.stderr).toBe(`backup: another backup of ${folder} is running\n`);
  expect(second.status).toBe(1);
  expect(run('CONFIG', 'GET', 'auto-aof-rewrite-percentage')).toContain('\n0\n');
  run('BGREWRITEAOF');
  await untilWritten();
  for await (const _ of pipe.createReadStream());
  expect([await ended, stderr]).toEqual([
    [1, null],
    expect.stringContaining('Redis has rewritten its file while it was saved'),
  ]);
  expect([...(await readdir(archives)), ...(await readdir(others))]).toEqual([]);
  expect(run('CONFIG', 'GET', 'auto-aof-rewrite-percentage')).toContain('\n100\n');
});

test('an archive without a file that its manifest names is refused before anything is written', async () => {
  const { folder, socket, untilWritten } = await startFilled();
  await untilWritten();
  const archive = join(folder, 'partyline.tar.gz');
  expect(save(socket, folder)).toEqual({ status: 0, stderr: '' });
  const unpacked = await newFolder();
  execFileSync('tar', ['-xzf', archive, '-C', unpacked]);
  const [base = ''] = (await readdir(join(unpacked, 'appendonlydir'))).filter((name) =>
    name.includes('.base.'),
  );
  await rm(join(unpacked, 'appendonlydir', base));
  execFileSync('tar', ['-czf', archive, '-C', unpacked, 'appendonlydir']);
  const target = await newFolder();
  const { status, stderr } = spawnSync(SCRIPT, ['restore', archive, target], { encoding: 'utf8' });
  expect(stderr).toBe(`backup: ${archive} is not whole: it has no appendonlydir/${base}\n`);
  expect(status).toBe(1);
  expect(await readdir(target)).toEqual([]);
});

/** Makes an archive as small as one that `restore` takes. @returns its path */
async function makeArchive(): Promise<string> {
  const [content, folder] = [await newFolder(), await newFolder()];
  await mkdir(join(content, 'appendonlydir'));
  const [manifest, base] = ['appendonly.aof.manifest', 'appendonly.aof.1.base.rdb'];
  await writeFile(join(content, 'appendonlydir', manifest), `file ${base} seq 1 type b\n`);
  await writeFile(join(content, 'appendonlydir', base), '');
  const archive = join(folder, 'partyline.tar.gz');
  execFileSync('tar', ['-czf', archive, '-C', content, 'appendonlydir']);
  return archive;
}

test('a restore into a folder that does not exist is refused, and makes none', async () => {
  const folder = join(await newFolder(), 'redis');
  const words = ['restore', await makeArchive(), folder];
  const { status, stderr } = spawnSync(SCRIPT, words, { encoding: 'utf8' });
  expect(stderr).toMatch(`backup: there is no folder ${folder}: make it`);
  expect(status).toBe(1);
  expect(existsSync(folder)).toBe(false);
});

test('what is restored belongs to the owner of the folder, whose name is printed', async () => {
  const folder = await newFolder();
  // Only root may give a folder away.
  const isRoot = process.getuid?.() === 0;
  if (isRoot) execFileSync('chown', ['nobody', folder]);
  const words = ['restore', await makeArchive(), folder];
  const stdout = execFileSync(SCRIPT, words, { encoding: 'utf8' });
  const { uid } = await stat(folder);
  const names = ['appendonlydir', 'appendonlydir/appendonly.aof.1.base.rdb'];
  for (const name of names) expect((await stat(join(folder, name))).uid).toBe(uid);
  const owner = isRoot ? 'nobody' : userInfo().username;
  expect(stdout).toContain(`the files belong to ${owner}: Redis must run as that user\n`);
});

test('a disk that fills up: the archive that was begun is removed', async () => {
  const { folder, socket } = await startFilled();
  const words = ['save', socket, folder, join(folder, 'partyline.tar.gz')];
  // 100 blocks of 512 bytes for each file that it writes.
  const limited = ['-c', 'ulimit -f 100; exec "$0" "$@"', SCRIPT, ...words];
  expect(spawnSync('sh', limited).status).not.toBe(0);
  expect((await readdir(folder)).filter((name) => name.startsWith('partyline'))).toEqual([]);
});

test('the folder of another Redis: no archive, and it says why', async () => {
  const [own, other] = [await newFolder(), await newFolder()];
  for (const folder of [own, other]) {
    const redis = await TestRedis.startAt(folder);
    cleanUps.push(() => redis.kill());
    const run = (...words: string[]) =>
      execFileSync('redis-cli', ['-s', join(folder, 'redis.sock'), ...words], { encoding: 'utf8' });
    run('CONFIG', 'SET', 'appendonly', 'yes');
    const isWriting = () =>
      /aof_rewrite_(in_progress|scheduled):1/.test(run('INFO', 'persistence'));
    await eventually('the file is written', () => !isWriting());
  }
  const { status, stderr } = save(join(own, 'redis.sock'), other);
  expect(status).toBe(1);
  expect(stderr).toContain(`backup: ${other}/appendonlydir is not that of this Redis`);
  expect((await readdir(other)).filter((name) => name.startsWith('partyline'))).toEqual([]);
});

test('unix:// and the path of a socket are saved from', async () => {
  const folder = await newFolder();
  const redis = await TestRedis.startAt(folder);
  cleanUps.push(() => redis.kill());
  const socket = join(folder, 'redis.sock');
  const appendOnly = ['-s', socket, 'CONFIG', 'SET', 'appendonly', 'yes'];
  // Redis writes the whole file now, and may still be at it.
  execFileSync('redis-cli', appendOnly);
  for (const address of [`unix://${socket}`, socket]) {
    expect(save(address, folder)).toEqual({ status: 0, stderr: '' });
  }
  const files = execFileSync('tar', ['-tzf', join(folder, 'partyline.tar.gz')], {
    encoding: 'utf8',
  });
  expect(files).toMatch(/^appendonlydir\/.*\.manifest$/m);
});
