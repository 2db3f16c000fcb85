import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';

/** Set-up, as npm's scripts run it before they start their program. */

const PROJECT = join(import.meta.dirname, '../..');

const readScripts = async () => {
  const text = await readFile(join(PROJECT, 'package.json'), 'utf8');
  return (JSON.parse(text) as { scripts: Record<string, string> }).scripts;
};

/** Makes a project with these scripts, and with programs in place of those of Partyline. @param node version of its Node */
async function openProject(programs: Record<string, string>, node = '24.0.0'): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-scripts-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const manifest = { name: 'partyline', private: true, type: 'module', devDependencies: { node } };
  const files = {
    'package.json': JSON.stringify({ ...manifest, scripts: await readScripts() }),
    ...programs,
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return folder;
}

test('no script needs another that npm may leave out', async () => {
  const scripts = Object.keys(await readScripts());
  expect(scripts.filter((name) => /^(pre|post)/.test(name))).toEqual([]);
});

test('npm start under ignore-scripts=true runs set-up, and then the gateway with all arguments', async () => {
  const folder = await openProject({
    '.npmrc': 'ignore-scripts=true\n',
    'scripts/set-up.mjs': "console.log('set-up');",
    'src/main.ts': 'console.log(process.ppid, ...process.argv.slice(2));',
  });
  const { stdout } = await promisify(execFile)('npm', ['--silent', 'start', '--', '--lan'], {
    cwd: folder,
  });
  // The process that the gateway ends with is npm, and its parent: no shell is between them.
  expect(stdout).toMatch(/^set-up\n(\d+) --end-with-parent=\1 --lan\n$/);
});

test('a set-up that fails ends npm start with its exit code, and nothing is started', async () => {
  const folder = await openProject({
    'scripts/set-up.mjs': 'process.exitCode = 3;',
    'src/main.ts': "console.log('started');",
  });
  const started = promisify(execFile)('npm', ['--silent', 'start'], { cwd: folder });
  await expect(started).rejects.toMatchObject({ code: 3, stdout: '' });
});

test('set-up ends its programs, and then itself, when the shell that npm has started is gone', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'partyline-scripts-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const module = JSON.stringify(join(PROJECT, 'scripts/set-up/run.mjs'));
  const logs = join(PROJECT, 'build/set-up');
  await mkdir(logs, { recursive: true });
  const log = await mkdtemp(join(logs, 'test-'));
  onTestFinished(() => rm(log, { recursive: true }));
  const name = JSON.stringify(join(log, 'log').slice(logs.length + 1));
  const script = `
    import { endWithParent, run } from ${module};
    endWithParent(Number(process.argv[2]));
    const onLine = (line) => console.log(line);
    await run('sh', ['-c', 'trap "echo ended; exit" TERM; echo begun; while :; do sleep 0.1; done'], { log: ${name}, onLine });`;
  const file = join(folder, 'set-up.mjs');
  await writeFile(file, script);
  const shell = spawn('sh', ['-c', '"$0" "$1" $$ && echo continued', process.execPath, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  shell.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()));
  await expect.poll(() => output).toBe('begun\n');
  shell.kill('SIGTERM');
  // The pipe is closed once set-up has ended, too.
  await once(shell.stdout, 'end');
  expect(output).toBe('begun\nended\n');
});

/** Root of a container may lack CAP_SYS_ADMIN. */
const canMount =
  spawnSync('unshare', ['--mount', 'sh', '-c', 'mount --bind "$0" "$0"', PROJECT]).status === 0;

test.skipIf(!canMount)(
  'where everything is set up, nothing is written: a folder of another user will do',
  () => {
    const setUp = [process.execPath, join(PROJECT, 'scripts/set-up.mjs')];
    const run = (command: string[], environment = {}) => {
      const [program = '', ...words] = command;
      const env = { ...process.env, ...environment };
      const { status, stdout, stderr } = spawnSync(program, words, { env, encoding: 'utf8' });
      return { status, stdout, stderr };
    };
    // Its version may not have been noted yet.
    expect(run(setUp)).toMatchObject({ status: 0 });
    const shell =
      'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && ! touch "$0/build" 2>/dev/null && exec "$@"';
    const alone = ['unshare', '--mount', 'sh', '-euc', shell, PROJECT, ...setUp];
    // This user has no cache of media workers, and can make none.
    const nothing = { status: 0, stdout: '', stderr: '' };
    expect(run(alone, { XDG_CACHE_HOME: '/dev/null' })).toEqual(nothing);
  },
);

test('npm run accounts installs nothing: packages of another version are those of a running gateway', async () => {
  const folder = await openProject({ 'src/accounts-cli.ts': "console.log('ran');" });
  await cp(join(PROJECT, 'scripts'), join(folder, 'scripts'), { recursive: true });
  await cp(join(PROJECT, 'package-lock.json'), join(folder, 'package-lock.json'));
  const before = await readdir(folder);
  const command = promisify(execFile)('npm', ['--silent', 'run', 'accounts', '--', 'list'], {
    cwd: folder,
  });
  const stderr = expect.stringMatching(/Set-up is due.*run "node scripts\/set-up\.mjs"/) as string;
  await expect(command).rejects.toMatchObject({ code: 1, stdout: '', stderr });
  expect(await readdir(folder)).toEqual(before);
});

test('npm run accounts takes a Node of the machine that is new enough, and names the one that is missing otherwise', async () => {
  const list = async (node: string) => {
    const programs = {
      'src/accounts-cli.ts': "console.log('ran');",
      'package-lock.json': '{ "packages": { "": {} } }',
      'node_modules/.package-lock.json': '{ "packages": {} }',
    };
    const folder = await openProject(programs, node);
    await cp(join(PROJECT, 'scripts'), join(folder, 'scripts'), { recursive: true });
    const words = ['--silent', 'run', 'accounts', '--', 'list'];
    // With the Node of this test as the machine's.
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH']}` };
    return promisify(execFile)('npm', words, { cwd: folder, env });
  };
  expect(await list('24.0.0')).toMatchObject({ stdout: 'ran\n', stderr: '' });
  const stderr = expect.stringContaining(
    'because Node 99.0.0 of the npm packages is missing',
  ) as string;
  await expect(list('99.0.0')).rejects.toMatchObject({ code: 1, stdout: '', stderr });
});
