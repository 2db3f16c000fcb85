import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { mkdtemp, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from './gateway.ts';

/**
 * Makes a root of its own, this machine's below it and unchanged, with the project in /srv/partyline and a link to it,
 * /opt/partyline, and becomes systemd in it.
 * $1: an empty folder. $2: the project. It starts nothing but what is asked for.
 */
const BOOT = `
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount --rbind /dev dev
mkdir -p srv/partyline opt old
mount --bind "$2" srv/partyline
ln -s /srv/partyline opt/partyline
rm -rf etc/systemd/system/*
printf '[Unit]\\nDescription=Nothing\\n' > etc/systemd/system/bare.target
pivot_root . old
umount -l old
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=bare.target --log-level=err
`;

/** Time after which a command is killed: the tests of this machine cannot go on beside it. */
const LONGEST_COMMAND_MS = 60_000;

/**
 * A machine that systemd has booted, as far as a PID namespace goes: processes, files, users and control groups are its own,
 * the network is this machine's. Needs root, and version 2 of control groups.
 */
export class BootedMachine {
  readonly #folder: string;
  readonly #cgroup: string;
  readonly #child: ChildProcess;
  #firstPid = 0;

  private constructor(folder: string, cgroup: string, child: ChildProcess) {
    this.#folder = folder;
    this.#cgroup = cgroup;
    this.#child = child;
  }

  /** @param project the folder that /opt/partyline is to be a link to */
  static async boot(project: string): Promise<BootedMachine> {
    const folder = await mkdtemp(join(tmpdir(), 'partyline-machine-'));
    const cgroup = join(findCgroups(), `partyline-machine-${process.pid}`);
    mkdirSync(cgroup);
    const namespaces = ['--mount', '--pid', '--fork', '--uts', '--ipc', '--cgroup'];
    const inside = ['unshare', ...namespaces, 'sh', '-euc', BOOT, 'sh', folder, project];
    const enter = ['-c', 'echo $$ > "$0/cgroup.procs" && exec "$@"', cgroup, ...inside];
    const child = spawn('sh', enter, { stdio: ['ignore', 'inherit', 'inherit'] });
    const machine = new BootedMachine(folder, cgroup, child);
    await eventually('systemd has started', () => machine.#hasBooted(), 20_000);
    return machine;
  }

  /** Runs a command in it. @returns its output @throws {Error} if it fails, with all that it wrote, or takes over a minute */
  run(...command: string[]): string {
    return execFileSync('nsenter', [...this.#enter, ...command], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: LONGEST_COMMAND_MS,
      killSignal: 'SIGKILL',
    });
  }

  /** One property of a unit. */
  property(unit: string, name: string): string {
    return this.run('systemctl', 'show', '--value', '--property', name, unit).trim();
  }

  /** Processes of a unit, as this machine counts them. */
  pidsOf(unit: string): number[] {
    const file = join(this.#cgroup, this.property(unit, 'ControlGroup'), 'cgroup.procs');
    return readFileSync(file, 'utf8').trim().split('\n').map(Number);
  }

  /** Kills all that runs in it; its files go with it. */
  async close(): Promise<void> {
    const exited = once(this.#child, 'exit');
    process.kill(this.#firstPid, 'SIGKILL');
    await exited;
    await eventually('its control groups can be removed', () => isRemoved(this.#cgroup));
    await rmdir(this.#folder);
  }

  get #enter(): string[] {
    return ['--target', `${this.#firstPid}`, '--mount', '--pid', '--uts', '--ipc', '--cgroup'];
  }

  #hasBooted(): boolean {
    const { pid, exitCode } = this.#child;
    if (exitCode !== null) throw new Error(`it has ended with ${exitCode}`);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
    this.#firstPid = Number(children);
    if (this.#firstPid === 0) return false;
    if (readFileSync(`/proc/${this.#firstPid}/comm`, 'utf8').trim() !== 'systemd') return false;
    try {
      return this.run('systemctl', 'is-system-running').trim() === 'running';
    } catch {
      // It does not listen yet, or starts.
      return false;
    }
  }
}

/** Returns the folder in which version 2 of control groups is mounted. */
function findCgroups(): string {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  const [, path] =
    mounts.map((line) => line.split(' ')).find(([, , type]) => type === 'cgroup2') ?? [];
  if (!path) throw new Error('this machine has no control groups of version 2');
  return path;
}

/** Removes a control group and all below it. @returns false while something runs in one of them */
function isRemoved(cgroup: string): boolean {
  try {
    for (const entry of readdirSync(cgroup, { withFileTypes: true })) {
      if (entry.isDirectory()) isRemoved(join(cgroup, entry.name));
    }
    rmdirSync(cgroup);
    return true;
  } catch {
    // EBUSY.
    return false;
  }
}
