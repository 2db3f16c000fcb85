/**
 * Runs the tests part by part; prints the minutes of each part, the slowest files, and the tests that were skipped, failed, or needed a second
 * attempt. Fails when a test fails, when a part leaves a process behind, and when it takes more than 1.5 times its limit, which grows with the
 * measured slowness of the machine; the time of a second attempt does not count. npm calls it: `npm test` runs the suite `short`,
 * `npm test -- short long` two of them.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build, readJson, root } from './set-up/project.mjs';
import { measureUsualSlowness, slownessOfPart } from './test/machine-speed.mjs';

const TOLERANCE = 1.5;
const SLOWEST_FILES = 10;

/**
 * Minutes that each part may take on two cores; those of `npm test` add up to eight. Every part but `check` is a
 * project of vitest.config.ts, or several ({@link PROJECTS}).
 */
const SUITES = {
  short: {
    check: 0.4,
    unit: 0.55,
    simulation: 1.4,
    waiting: 2.25,
    listening: 1,
    hearing: 0.95,
    e2e: 1.45,
  },
  long: { long: 20 },
  deploy: { deploy: 45 },
};

/** @type {Record<string, string[]>} */
const PROJECTS = {
  unit: ['unit', 'mocking'],
  waiting: ['waiting', 'waiting-apart'],
  listening: ['listening', 'mixing'],
  e2e: ['pages', 'e2e'],
  long: ['long-hidden', 'long-sound', 'long-waiting', 'long', 'long-simulation'],
};

const REPORTER = 'scripts/test/reporter.mjs';

/** Parts that listen and wait in real time: a machine that stands still for a moment may fail a test. */
const REAL_TIME_PARTS = new Set(['waiting', 'listening', 'hearing', 'e2e', 'long']);
/** Long simulations are unit tests, in virtual time. */
const UNIT_TEST = /^test\/unit\//;
/** Maximum number of files of a part that are run again: if tests fail in more, the machine is not the cause. */
const MOST_FILES_AGAIN = 2;

/** Time that a process may take to end after the one that started it, ms: less than the alarm of one that hangs at its end (decision 223). */
const ENDING_MS = 8000;
/** Tells the processes of this run from those of a gateway that somebody uses beside it. */
const RUN = `PARTYLINE_TEST_RUN=${randomUUID()}`;
const env = { ...process.env, PARTYLINE_TEST_RUN: RUN.split('=')[1] };
/** Characters of a command that is printed: that of a browser has thousands. */
const LONGEST_COMMAND = 200;

/**
 * @typedef {import('./test/reporter.mjs').FileResult} FileResult
 * @typedef {import('./test/reporter.mjs').Report} Report
 * @typedef {Report & { isPassed: boolean }} Run
 * @typedef {{ minutes: number, firstMinutes: number, isPassed: boolean, files: FileResult[], failures: string[], retried: string[] }} Result
 */

/**
 * @param {string} part
 * @returns {Promise<Result>}
 */
async function runPart(part) {
  const startMs = performance.now();
  const first = part === 'check' ? runCheck() : runTests(part, []);
  const firstMinutes = minutesSince(startMs);
  const failed = filesToRunAgain(part, first);
  const leftByFailed = failed.length > 0 ? await endWhatIsLeft() : [];
  for (const leftover of leftByFailed)
    print(`Left behind by a failed test of ${part}: ${leftover}`);
  const again = failed.length > 0 ? runTests(part, failed) : undefined;
  const minutes = minutesSince(startMs);
  const left = await endWhatIsLeft();
  for (const leftover of left) print(`Left behind by ${part}: ${leftover}`);
  const files = again ? replaceFiles(first.files, again.files) : first.files;
  const { isPassed, faults } = again ?? first;
  return {
    minutes,
    firstMinutes,
    isPassed: isPassed && left.length === 0,
    files,
    failures: [...files.flatMap(({ failures }) => failures), ...faults],
    retried: again ? mendedFailures(first.files, again.files) : [],
  };
}

/** @param {number} startMs */
const minutesSince = (startMs) => (performance.now() - startMs) / 60_000;

/** @returns {Run} */
function runCheck() {
  return { files: [], faults: [], isPassed: run('npm', ['run', 'check'], env) };
}

/**
 * @param {string} part
 * @param {string[]} files empty: all files of the part
 * @returns {Run}
 */
function runTests(part, files) {
  const path = join(build, 'tests', `${part}.json`);
  const reporters = ['--reporter=default', `--reporter=${REPORTER}`];
  const projects = (PROJECTS[part] ?? [part]).map((project) => `--project=${project}`);
  rmSync(path, { force: true });
  // Files that are run again have the machine for themselves.
  const alone = files.length > 0 ? ['--no-file-parallelism'] : [];
  const words = ['run', ...projects, ...reporters, ...alone, ...files];
  const isPassed = run('vitest', words, { ...env, PARTYLINE_TEST_REPORT: path });
  if (existsSync(path)) return { ...readJson(path), isPassed };
  return { files: [], faults: [`${part}: vitest ended without a report`], isPassed: false };
}

/**
 * @param {string} program
 * @param {string[]} words
 * @param {NodeJS.ProcessEnv} environment
 */
function run(program, words, environment) {
  const { status, error } = spawnSync(program, words, {
    stdio: 'inherit',
    cwd: root,
    env: environment,
  });
  if (error) throw error;
  return status === 0;
}

/**
 * Names the files of a part in which a test failed, if they are run again: whole, because their tests may share a recording (decision 45).
 * @param {string} part
 * @param {Run} first
 */
function filesToRunAgain(part, { isPassed, files, faults }) {
  const failed = files.filter((file) => !file.isPassed).map(({ name }) => name);
  const isInRealTime = REAL_TIME_PARTS.has(part) && !failed.some((name) => UNIT_TEST.test(name));
  const mayBeMachine = isInRealTime && failed.length <= MOST_FILES_AGAIN;
  // Faults outside of tests may be those of any file.
  const isExplained = failed.length > 0 && faults.length === 0;
  if (!process.env['CI'] || isPassed || !mayBeMachine || !isExplained) return [];
  return failed;
}

/**
 * @param {FileResult[]} files
 * @param {FileResult[]} newer
 */
function replaceFiles(files, newer) {
  const names = new Set(newer.map(({ name }) => name));
  return [...files.filter(({ name }) => !names.has(name)), ...newer];
}

/**
 * Returns the failures of files that passed when they were run again.
 * @param {FileResult[]} files
 * @param {FileResult[]} again
 */
function mendedFailures(files, again) {
  const passed = new Set(again.filter((file) => file.isPassed).map(({ name }) => name));
  return files.filter(({ name }) => passed.has(name)).flatMap(({ failures }) => failures);
}

/**
 * Ends what a test has started and not ended, whatever its program: it would keep its ports and some of the CPU
 * of the tests that follow.
 * @returns {Promise<string[]>} their commands
 */
async function endWhatIsLeft() {
  const deadlineMs = performance.now() + ENDING_MS;
  let left = findLeft();
  while (left.length > 0 && performance.now() < deadlineMs) {
    await sleep(100);
    left = findLeft();
  }
  const commands = left.map((pid) => read(pid, 'cmdline').join(' ').slice(0, LONGEST_COMMAND));
  for (const pid of left) kill(pid);
  return commands;
}

/** Finds the processes of this run by their environment, which each inherits from the one that started it. */
function findLeft() {
  const pids = readdirSync('/proc').map(Number);
  return pids.filter((pid) => pid > 0 && read(pid, 'environ').includes(RUN));
}

/**
 * @param {number} pid
 * @param {'cmdline' | 'environ'} file
 * @returns {string[]} its words; none of a process that has ended, or is another user's
 */
function read(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

/** @param {number} pid */
function kill(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    // It has ended in the meantime.
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'ESRCH') throw error;
  }
}

const print = (line = '') => process.stdout.write(`${line}\n`);

/** @param {number} minutes */
const format = (minutes) => minutes.toFixed(2).padStart(6);

/**
 * @param {number} slowness
 * @returns {string} what the summary says of the machine; nothing if it is as fast as the one of the limits
 */
const describe = (slowness) =>
  slowness > 1 ? `(the machine takes ${slowness.toFixed(1)} times as long)` : '';

const names = process.argv.slice(2);
const suites = names.length === 0 ? ['short'] : names;
const parts = suites.flatMap((name) => {
  const suite = Object.entries(SUITES).find(([known]) => known === name);
  if (!suite)
    throw new Error(`${name} is no suite; there are ${Object.keys(SUITES).join(' and ')}`);
  return Object.entries(suite[1]).map(([part, limit]) => ({ suite: name, part, limit }));
});
mkdirSync(join(build, 'tests'), { recursive: true });

let isPassed = true;
/** @type {string[]} */
const failures = [];
/** @type {string[]} */
const retried = [];
/** @type {FileResult[]} */
const files = [];
const lines = [];
/** @type {Map<string, { minutes: number, limit: number, slowLimit: number }>} */
const sums = new Map();
let slownessBefore = (await measureUsualSlowness()) ?? 1;
for (const { suite, part, limit } of parts) {
  const result = await runPart(part);
  const slownessAfter = (await measureUsualSlowness()) ?? slownessBefore;
  const slowness = slownessOfPart(slownessBefore, slownessAfter);
  slownessBefore = slownessAfter;
  const isLate = result.firstMinutes > TOLERANCE * limit * slowness;
  const sum = sums.get(suite) ?? { minutes: 0, limit: 0, slowLimit: 0 };
  sum.minutes += result.minutes;
  sum.limit += limit;
  sum.slowLimit += limit * slowness;
  sums.set(suite, sum);
  isPassed &&= result.isPassed && !isLate;
  files.push(...result.files);
  failures.push(...result.failures);
  retried.push(...result.retried);
  const verdict = [!result.isPassed && 'failed', isLate && 'too slow'].filter(Boolean).join(', ');
  const words = [part, verdict, describe(slowness)].filter((word) => word !== '').join('  ');
  lines.push(`${format(result.minutes)} of ${format(limit)}  ${words}`);
}

print('\nMinutes of each part, and its limit on two cores:');
for (const line of lines) print(line);
for (const [suite, { minutes, limit, slowLimit }] of sums) {
  // The slowness of a suite is the mean of those of its parts, each weighed by its limit.
  const machine = describe(slowLimit / limit);
  print(`${format(minutes)} of ${format(limit)}  all of ${suite}${machine && `  ${machine}`}`);
}
print('\nSlowest files:');
for (const { name, minutes } of files
  .toSorted((a, b) => b.minutes - a.minutes)
  .slice(0, SLOWEST_FILES)) {
  print(`${format(minutes)}  ${name}`);
}
const skipped = files.flatMap((file) => file.skipped);
if (skipped.length > 0) print('\nNot run on this machine:');
for (const name of skipped) print(`  ${name}`);
if (retried.length > 0) print('\nNeeded a second attempt:');
for (const name of retried) print(`  ${name}`);
if (failures.length > 0) print('\nFailed tests:');
for (const failure of failures) print(`  ${failure}`);
const passed = files.reduce((sum, file) => sum + file.passed, 0);
const counts = `${passed} passed, ${failures.length} failed, ${skipped.length} skipped`;
print(`\n${isPassed ? 'Passed' : 'Failed'}: ${counts}`);
process.exitCode = isPassed ? 0 : 1;
