/** Debian packages, installed when something that they bring is not there. */
import { spawnSync } from 'node:child_process';
import { SetUpFailure } from './failure.mjs';
import { find } from './find.mjs';
import { exclusively } from './lock.mjs';
import { CommandFailure, run } from './run.mjs';
import { print, printProgress } from './log.mjs';

/** For a fresh machine whose own unattended upgrade is at work. */
const lockTimeoutSeconds = 600;

let listsUpdated = false;

/**
 * Needed packages, each with a test for what it brings, which also finds what was installed in another way.
 *
 * @typedef {Record<string, () => boolean>} Needs
 */

/**
 * @param {string} topic
 * @param {Needs} needs
 * @param {object} [words] for the sentence that a failure ends with
 * @param {string} [words.what] what Partyline needs; the packages' names when left out
 * @param {string} [words.byHand] the packages that a person installs instead
 */
export async function provide(topic, needs, words = {}) {
  if (missing(needs).length === 0) return;
  await exclusively('apt', async () => {
    const packages = missing(needs);
    if (packages.length === 0) return;
    await install(topic, packages, words);
    const stillMissing = missing(needs);
    if (stillMissing.length > 0) {
      throw failure(stillMissing, words, 'apt-get did, but what they should bring is not there');
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
 * @returns {{ command: string[] } | { refusal: string }} what stands before a command to run it as
 *   root, or why that cannot be
 */
function asRoot() {
  if (!find('apt-get')) return { refusal: 'no apt-get here' };
  if (process.getuid?.() === 0) return { command: [] };
  if (!find('sudo')) return { refusal: 'not root, no sudo' };
  if (spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0) {
    return { command: ['sudo', '-n'] };
  }
  return { refusal: 'not root, and sudo asks for a password' };
}

/**
 * Once a set-up; a fresh machine has no lists at all.
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
    // One broken source among several: the packages may well come from the others.
    print(topic, `apt-get update failed, going on with the lists that are there`);
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
    print(topic, 'finishing an installation that was interrupted (dpkg --configure -a)');
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
  // `env`, because sudo keeps little of the environment.
  const words = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', program, ...options, ...args];
  const [first = '', ...rest] = words;
  await run(first, rest, { log: 'apt', ...(onLine && { onLine }) });
}

/**
 * Each package is downloaded, unpacked and set up: three steps, which apt-get tells one by one.
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
