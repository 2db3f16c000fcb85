import { spawnSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  fchownSync,
  ftruncateSync,
  openSync,
  readFileSync,
  type Stats,
  statSync,
  writeSync,
} from 'node:fs';
import { access, chmod, chown, mkdir, readdir, stat } from 'node:fs/promises';
import { dirname, join, relative, resolve } from 'node:path';

/** Returns true if users other than its owner may read or write a file. */
const isOpen = (mode: number) => (mode & 0o077) !== 0;
const STICKY = 0o1000;

const LOCK_FILE = 'redis.lock';
const APPEND_ONLY_DIR = 'appendonlydir';
const DEMO_KEY_FILE = 'demo-key';
/** Files of the gateway and of Redis beside the append-only files. */
const OWN_FILES = new Set([
  LOCK_FILE,
  DEMO_KEY_FILE,
  'last-account-id',
  'dump.rdb',
  'lan-cert.pem',
  'lan-key.pem',
]);

/** The user and group to which a folder belongs. */
export type Owner = { uid: number; gid: number };

/** User of a data folder: a gateway for as long as it runs, or the operator's command for a moment. */
export type DataDirUser = { what: 'gateway' | 'command'; pid: number };

/** An exclusive lock on a data folder. The kernel frees it when the last process that inherited its descriptor has ended. */
export type DataDirLock = { fd: number; release(): void };

/** Returns the path of the own Redis's socket in a data folder: absolute or relative, whichever is shorter. */
export function socketPathIn(dataDir: string): string {
  const absolutePath = join(dataDir, 'redis.sock');
  const relativePath = relative(process.cwd(), absolutePath);
  return relativePath.length < absolutePath.length ? relativePath : absolutePath;
}

/** Returns the path of the file with the demo account's key in a data folder. */
export const demoKeyFileIn = (dataDir: string): string => join(dataDir, DEMO_KEY_FILE);

/** Returns what a data folder has: the data of an own Redis; the demo key of a gateway without one; or neither. */
export function contentOf(dataDir: string): 'redis' | 'demo-key' | 'nothing' {
  if (existsSync(join(dataDir, APPEND_ONLY_DIR))) return 'redis';
  return existsSync(demoKeyFileIn(dataDir)) ? 'demo-key' : 'nothing';
}

/**
 * Creates the data folder if it is missing, and makes it and its files readable by its owner only.
 * @throws {Error} naming DATA_DIR, if that fails
 */
export async function openDataDir(dataDir: string): Promise<Owner> {
  try {
    await makeFolder(resolve(dataDir));
    const folder = await stat(dataDir);
    if (!folder.isDirectory()) throw new Error('it is not a folder');
    if ((folder.mode & STICKY) !== 0) throw new Error('others use this folder too: choose another');
    await tighten(dataDir, folder, 0o700);
    await access(dataDir, constants.R_OK | constants.W_OK | constants.X_OK);
    await tightenFiles(dataDir);
    return { uid: folder.uid, gid: folder.gid };
  } catch (cause) {
    throw new Error(`DATA_DIR ${dataDir} cannot be used`, { cause });
  }
}

/**
 * Gives a file that root made in a data folder to the folder's owner, which could not read it otherwise.
 * Does nothing for any other user.
 */
export async function giveToOwner(path: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = await stat(dirname(path));
  await chown(path, uid, gid);
}

/**
 * Takes the lock of a data folder, if it is free. A process that is started with its descriptor holds it too: `flock`
 * locks what a descriptor stands for, not the process (flock(2)).
 */
export function lockDataDir(dataDir: string, what: DataDirUser['what']): DataDirLock | undefined {
  const fd = openSync(join(dataDir, LOCK_FILE), constants.O_RDWR | constants.O_CREAT, 0o600);
  if (process.getuid?.() === 0) {
    const { uid, gid } = statSync(dataDir);
    fchownSync(fd, uid, gid);
  }
  const { status, stderr, error } = spawnSync('flock', ['--nonblock', '3'], {
    stdio: ['ignore', 'ignore', 'pipe', fd],
    encoding: 'utf8',
  });
  if (status !== 0) closeSync(fd);
  if (status === 1 && stderr === '') return undefined;
  if (status !== 0) {
    throw new Error(`DATA_DIR ${dataDir} cannot be locked: ${error?.message ?? stderr.trim()}`);
  }
  writeDataDirUser(fd, { what, pid: process.pid });
  return { fd, release: () => closeSync(fd) };
}

/** Writes the user into the lock file, for messages, and so that commands wait for each other. The lock itself is the descriptor. */
function writeDataDirUser(fd: number, user: DataDirUser): void {
  ftruncateSync(fd);
  try {
    writeSync(fd, JSON.stringify(user), 0);
  } catch {
    // If the disk is full, the user stays unknown.
    ftruncateSync(fd);
  }
}

/** Returns the last user of the folder; undefined if it is not known yet. */
export function readDataDirUser(dataDir: string): DataDirUser | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, LOCK_FILE), 'utf8')) as DataDirUser;
  } catch {
    // The user is about to write it, or the disk was full when it did.
    return undefined;
  }
}

/** Creates folders without `recursive`, which loops forever in /proc. */
async function makeFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (fault) {
    const code = fault instanceof Error && 'code' in fault ? fault.code : undefined;
    if (code === 'EEXIST') return;
    const parent = dirname(path);
    if (code !== 'ENOENT' || parent === path || (await exists(parent))) throw fault;
    await makeFolder(parent);
    await mkdir(path, { mode: 0o700 });
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch {
    // The attempt to create the folder reports the reason.
    return false;
  }
}

/** Changes a mode if this user owns the file; a writable folder of another user is left as it is. */
async function tighten(path: string, { mode, uid }: Stats, wanted: number): Promise<void> {
  const user = process.getuid?.();
  if (isOpen(mode) && (user === uid || user === 0)) await chmod(path, wanted);
}

async function tightenFiles(dataDir: string): Promise<void> {
  const entries = await readdir(dataDir);
  const files = entries.filter((name) => OWN_FILES.has(name)).map((name) => join(dataDir, name));
  if (entries.includes(APPEND_ONLY_DIR)) {
    const folder = join(dataDir, APPEND_ONLY_DIR);
    await tighten(folder, await stat(folder), 0o700);
    await access(folder, constants.R_OK | constants.W_OK | constants.X_OK);
    files.push(...(await readdir(folder)).map((name) => join(folder, name)));
  }
  for (const file of files) {
    await tighten(file, await stat(file), 0o600);
    // Files that root left there would lock out the user that the gateway runs as.
    await access(file, constants.R_OK | constants.W_OK);
  }
}
