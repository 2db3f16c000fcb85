/** Installs Debian packages whose programs or libraries are missing. */
import { spawnSync } from 'node:child_process';
import { SetUpFailure } from './failure.mjs';
import { find } from './find.mjs';
import { exclusively } from './lock.mjs';
import { CommandFailure, run } from './run.mjs';
import { print, printProgress } from './log.mjs';

/** Maximum wait for the lock of dpkg, s: on a fresh machine an unattended upgrade may hold it. */
const lockTimeoutSeconds = 600;

let listsUpdated = false;

/**
 * Needed packages by name, each with a function that returns true if its files are there, installed in whatever way.
 *
 * @typedef {Record<string, () => boolean>} Needs
 */

/**
 * @param {string} topic
 * @param {Needs} needs
 * @param {object} [words] parts of the error message
 * @param {string} [words.what] what Partyline needs; by default the names of the packages
 * @param {string} [words.byHand] packages that the message tells to install; by default the same
 */
export async function provide(topic, needs, words = {}) {
  if (missing(needs).length === 0) return;
  await exclusively('apt', async () => {
    const packages = missing(needs);
    if (packages.length === 0) return;
    await install(topic, packages, words);
    const stillMissing = missing(needs);
    if (stillMissing.length > 0) {
      throw failure(stillMissing, words, 'apt-get succeeded, but their files are missing');
    }
  });
}

/** @param {Needs} needs */
function missing(needs) {
  return Object.keys(needs).filter((name) => !needs[name]?.());
}

/**
 * @param {string} topic
 * @param {string[]} packages
 * @param {{ what?: string, byHand?: string }} words
 */
async function install(topic, packages, words) {
  const prefix = asRoot();
  if ('refusal' in prefix) throw failure(packages, words, prefix.refusal);
  print(topic, `installing ${packages.join(' ')} (apt-get)`);
  try {
    await updateLists(topic, prefix.command);
    await installOrRepair(topic, prefix.command, packages);
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    error.show();
    throw failure(packages, words, error.message);
  }
}

/**
 * @returns {{ command: string[] } | { refusal: string }} words before a command that run it as root, or the reason
 *   for which there are none
 */
function asRoot() {
  if (!find('apt-get')) return { refusal: 'apt-get not found' };
  if (process.getuid?.() === 0) return { command: [] };
  if (!find('sudo')) return { refusal: 'not root, and sudo not found' };
  if (spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0) {
    return { command: ['sudo', '-n'] };
  }
  return { refusal: 'not root, and sudo asks for a password' };
}

/**
 * Updates the package lists, once in each run of set-up: a fresh machine has none.
 *
 * @param {string} topic
 * @param {string[]} prefix
 */
async function updateLists(topic, prefix) {
  if (listsUpdated) return;
  listsUpdated = true;
  try {
    await asRootRun(prefix, ['apt-get', 'update']);
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    // One of several sources may be broken: the packages may come from the others.
    print(topic, 'apt-get update failed; using the existing package lists');
  }
}

/**
 * @param {string} topic
 * @param {string[]} prefix
 * @param {string[]} packages
 */
async function installOrRepair(topic, prefix, packages) {
  const command = ['apt-get', 'install', '-y', '--no-install-recommends', ...packages];
  try {
    await asRootRun(prefix, command, progressOf(topic));
  } catch (error) {
    const interrupted =
      error instanceof CommandFailure &&
      error.lines.some((line) => line.includes('dpkg --configure -a'));
    if (!interrupted) throw error;
    print(topic, 'completing an interrupted installation (dpkg --configure -a)');
    await asRootRun(prefix, ['dpkg', '--configure', '-a']);
    await asRootRun(prefix, command, progressOf(topic));
  }
}

/**
 * @param {string[]} prefix
 * @param {string[]} command
 * @param {(line: string) => void} [onLine]
 */
async function asRootRun(prefix, [program = '', ...args], onLine) {
  const options = program === 'apt-get' ? ['-o', `DPkg::Lock::Timeout=${lockTimeoutSeconds}`] : [];
  // `env` sets the variable behind sudo, which drops most of the environment.
  const words = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', program, ...options, ...args];
  const [first = '', ...rest] = words;
  await run(first, rest, { log: 'apt', ...(onLine && { onLine }) });
}

/**
 * Returns a reader of apt-get's output that prints progress: apt-get prints a line when it downloads, unpacks and sets up
 * each package.
 *
 * @param {string} topic
 * @returns {(line: string) => void}
 */
function progressOf(topic) {
  const progress = printProgress(topic, 'installing, step');
  let done = 0;
  let total = 0;
  return (line) => {
    const plan = /^(\d+) upgraded, (\d+) newly installed/.exec(line);
    if (plan) total = 3 * (Number(plan[1]) + Number(plan[2]));
    if (!/^(Get:\d|Unpacking |Setting up )/.test(line) || total === 0) return;
    done += 1;
    progress(done, total);
  };
}

/**
 * @param {string[]} packages
 * @param {{ what?: string, byHand?: string }} words
 * @param {string} reason
 */
function failure(packages, { what = packages.join(', '), byHand = packages.join(' ') }, reason) {
  return new SetUpFailure(
    `Partyline needs ${what}, and could not install ${packages.length > 1 ? 'them' : 'it'} (${reason}): run "sudo apt-get install -y ${byHand}".`,
  );
}
