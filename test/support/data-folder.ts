import { execFile, spawn, spawnSync } from 'node:child_process';
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runAccountsCommand } from '../../src/cli/run-accounts-command.ts';

/** Output and exit code of a program of the project. */
export type Ended = { code: number; stdout: string; stderr: string };

const inProject = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const CLI = inProject('src/accounts-cli.ts');
const WORKER = inProject('workers/usage.ts');

/** Time that a program has to end, ms; one that is killed then has the code -1. */
const ENDS_WITHIN_MS = 60_000;

/** Runs a program to its end. */
function run(words: string[], environment: Record<string, string>): Promise<Ended> {
  const env = { ...process.env, ...environment };
  return new Promise((done) => {
    execFile(process.execPath, words, { env, timeout: ENDS_WITHIN_MS }, (fault, stdout, stderr) => {
      const code = fault ? (typeof fault.code === 'number' ? fault.code : -1) : 0;
      done({ code, stdout, stderr });
    });
  });
}

/** The accounts command as operators run it: a process of its own, which takes about a second. */
export const spawnAccounts = (environment: Record<string, string>, ...words: string[]) =>
  run([CLI, ...words], environment);

/** The accounts command on a terminal, at which a person types lines when it is asked. */
export function typeAccounts(
  environment: Record<string, string>,
  typed: string,
  ...words: string[]
): Promise<Ended> {
  const command = [process.execPath, CLI, ...words].map((word) => `'${word}'`).join(' ');
  const env = { ...process.env, ...environment };
  return new Promise((done) => {
    // util-linux has it: it runs a command on a terminal of its own, and shows what appears there.
    const terminal = spawn('script', ['-qec', command, '/dev/null'], { env });
    let shown = '';
    terminal.stdout.on('data', (bytes: Buffer) => {
      if (!shown.includes(': ') && bytes.includes(': ')) terminal.stdin.write(typed);
      shown += bytes.toString();
    });
    terminal.on('exit', (code) => done({ code: code ?? -1, stdout: shown, stderr: '' }));
  });
}

/** The accounts command in this process: the same arguments, output and exit code. */
export async function runAccounts(
  environment: Record<string, string>,
  ...words: string[]
): Promise<Ended> {
  const written = { stdout: '', stderr: '' };
  const code = await runAccountsCommand(
    words,
    { ...process.env, ...environment },
    {
      stdout: {
        write: (text) => {
          written.stdout += text;
          return Promise.resolve();
        },
      },
      stderr: { write: (text) => (written.stderr += text) },
    },
  );
  return { code, ...written };
}

export const CREATE = ['create', '--name', 'Ada', '--email', 'ada@example.com', '--json'];

/** Every command there is; those that concern an account concern this one. */
export const commandsOn = (id: string): string[][] => [
  CREATE,
  ['list'],
  ['show', id],
  ['set-plan', id, 'free'],
  ['set-audio', id, '--default-audio', 'pcmu'],
  ['set-webhook', id, 'https://example.com/'],
  ['suspend', id],
  ['activate', id],
  ['close', id],
  ['key-add', id],
  ['key-revoke', id, '0123456789abcdef'],
  ['rotate-token-key'],
  ['usage', id],
];

export const runWorker = (environment: Record<string, string>) => run([WORKER], environment);

/** The redis-servers that run in a data folder. */
export async function redisServersIn(dataDir: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter((pid) => pid > 0);
  const found = await Promise.all(pids.map((pid) => isRedisServerIn(pid, resolve(dataDir))));
  return pids.filter((_, index) => found[index]);
}

async function isRedisServerIn(pid: number, folder: string): Promise<boolean> {
  try {
    const name = (await readFile(`/proc/${pid}/comm`, 'utf8')).trim();
    return name === 'redis-server' && (await readlink(`/proc/${pid}/cwd`)) === folder;
  } catch {
    // It has ended since the folder was read.
    return false;
  }
}

/**
 * A folder on a disk of its own, so small that it can be filled, and large enough that a gateway lets clients in while it is
 * not; undefined where nothing may be mounted.
 */
export async function mountSmallDisk(): Promise<
  { folder: string; unmount(): Promise<void> } | undefined
> {
  const root = await mkdtemp(join(tmpdir(), 'partyline-disk-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=16m', 'tmpfs', root]);
  const unmount = async () => {
    spawnSync('umount', ['--lazy', root]);
    await rm(root, { recursive: true, force: true });
  };
  if (status !== 0) {
    await unmount();
    return undefined;
  }
  const folder = join(root, 'data');
  await mkdir(folder, { mode: 0o700 });
  return { folder, unmount };
}

/** An environment in which a redis-server loads each key so slowly. */
export async function slowLoading(folder: string, usPerKey: number) {
  const { stdout } = spawnSync('sh', ['-c', 'command -v redis-server'], { encoding: 'utf8' });
  const program = join(folder, 'redis-server');
  const command = `exec "${stdout.trim()}" "$@" --key-load-delay ${usPerKey}`;
  await writeFile(program, `#!/bin/sh\n${command}\n`);
  await chmod(program, 0o755);
  return { PATH: `${folder}:${process.env['PATH']}` };
}
