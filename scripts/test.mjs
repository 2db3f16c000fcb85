/**
 * Runs the tests part by part; prints the minutes of each part, the slowest files, and the tests that were skipped, retried or failed. Fails when a
 * part takes more than 1.5 times its limit, which grows with the measured slowness of the machine. `node scripts/test.mjs` is the suite of
 * `npm test`, `node scripts/test.mjs long` that of `npm run test:long`, `node scripts/test.mjs deploy` that of `npm run test:deploy`;
 * `node scripts/test.mjs short long` runs two of them.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build, readJson, root } from './set-up/project.mjs';
import { measureSlowness } from './test/machine-speed.mjs';

const TOLERANCE = 1.5;
/** Slowness of a machine beyond which a limit grows no further: the run must end some time. */
const MOST_SLOWNESS = 4;
const SLOWEST_FILES = 10;
/** Characters of what a failed test has to say. */
const LONGEST_REASON = 300;

/**
 * Minutes that each part may take on two cores; those of `npm test` add up to eight. Every part but `check` is a
 * project of vitest.config.ts, or several ({@link PROJECTS}).
 */
const SUITES = {
  short: {
    check: 0.5,
    unit: 0.4,
    simulation: 1.4,
    waiting: 1.85,
    listening: 1.05,
    hearing: 1.1,
    e2e: 1.7,
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

/** Time that a process may take to end after the one that started it. */
const ENDING_MS = 3000;
/** Tells the processes of this run from those of a gateway that somebody uses beside it. */
const RUN = `PARTYLINE_TEST_RUN=${randomUUID()}`;
const env = { ...process.env, PARTYLINE_TEST_RUN: RUN.split('=')[1] };
/** Characters of a command that is printed: that of a browser has thousands. */
const LONGEST_COMMAND = 200;

/**
 * @typedef {{ name: string, minutes: number }} Timed
 * @typedef {{ passed: number, failed: number, skipped: number }} Counts
 * @typedef {{ minutes: number, isPassed: boolean, tests: Counts, files: Timed[], failures: string[], skipped: string[], retried: string[] }} Result
 * @typedef {{ status: string, fullName: string, failureMessages: string[] }} Assertion
 * @typedef {{ name: string, startTime: number, endTime: number, message: string, assertionResults: Assertion[] }} FileReport
 */

/**
 * @param {string} part
 * @returns {Promise<Result>}
 */
async function runPart(part) {
  const startMs = performance.now();
  const report = join(build, 'tests', `${part}.json`);
  rmSync(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const projects = (PROJECTS[part] ?? [part]).map((project) => `--project=${project}`);
  const command =
    part === 'check' ? ['npm', 'run', 'check'] : ['vitest', 'run', ...projects, ...reporters];
  const [program = '', ...words] = command;
  const { status } = spawnSync(program, words, { stdio: 'inherit', cwd: root, env });
  const minutes = (performance.now() - startMs) / 60_000;
  const left = await endWhatIsLeft();
  for (const leftover of left) print(`Left behind by ${part}: ${leftover}`);
  return {
    minutes,
    isPassed: status === 0 && left.length === 0,
    ...(part === 'check' ? nothing() : readReport(report)),
  };
}

const nothing = () => ({
  tests: { passed: 0, failed: 0, skipped: 0 },
  files: [],
  failures: [],
  skipped: [],
  retried: [],
});

/**
 * @param {string} path of vitest's JSON report; there is none if it did not start
 * @returns {Pick<Result, 'tests' | 'files' | 'failures' | 'skipped' | 'retried'>}
 */
function readReport(path) {
  if (!existsSync(path)) return nothing();
  const { numPassedTests, numFailedTests, numPendingTests, testResults } = readJson(path);
  /** @type {FileReport[]} */
  const reports = testResults;
  return {
    tests: { passed: numPassedTests, failed: numFailedTests, skipped: numPendingTests },
    files: reports.map(({ name, startTime, endTime }) => ({
      name: relative(root, name),
      minutes: (endTime - startTime) / 60_000,
    })),
    failures: reports.flatMap(failuresOf),
    skipped: reports.flatMap(skippedOf),
    retried: reports.flatMap(retriedOf),
  };
}

/**
 * @param {FileReport} report
 * @returns {string[]}
 */
function failuresOf({ name, message, assertionResults }) {
  const file = relative(root, name);
  const failed = assertionResults.filter(({ status }) => status === 'failed');
  const ofTests = failed.map(({ fullName, failureMessages }) => {
    const reasons = failureMessages.map((reason) => `\n    ${reason.slice(0, LONGEST_REASON)}`);
    return `${file} > ${fullName}${reasons.join('')}`;
  });
  return message ? [`${file}: ${message.slice(0, LONGEST_REASON)}`, ...ofTests] : ofTests;
}

/**
 * Tests that this machine cannot run, for lack of a program or of rights.
 * @param {FileReport} report
 * @returns {string[]}
 */
function skippedOf({ name, assertionResults }) {
  const skipped = assertionResults.filter(({ status }) => ['skipped', 'pending'].includes(status));
  return skipped.map(({ fullName }) => `${relative(root, name)} > ${fullName}`);
}

/**
 * Tests that passed at the second attempt: vitest keeps the failures of the first.
 * @param {FileReport} report
 * @returns {string[]}
 */
function retriedOf({ name, assertionResults }) {
  const retried = assertionResults.filter(
    ({ status, failureMessages }) => status === 'passed' && failureMessages.length > 0,
  );
  return retried.map(({ fullName, failureMessages: [reason = ''] }) => {
    return `${relative(root, name)} > ${fullName}\n    ${reason.slice(0, LONGEST_REASON)}`;
  });
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
const total = nothing().tests;
/** @type {string[]} */
const failures = [];
/** @type {string[]} */
const skipped = [];
/** @type {string[]} */
const retried = [];
/** @type {Timed[]} */
const files = [];
const lines = [];
/** @type {Map<string, { minutes: number, limit: number, slowLimit: number }>} */
const sums = new Map();
let slownessBefore = (await measureSlowness()) ?? 1;
for (const { suite, part, limit } of parts) {
  const result = await runPart(part);
  const slownessAfter = (await measureSlowness()) ?? slownessBefore;
  const slowness = Math.min(Math.max((slownessBefore + slownessAfter) / 2, 1), MOST_SLOWNESS);
  slownessBefore = slownessAfter;
  const isLate = result.minutes > TOLERANCE * limit * slowness;
  const sum = sums.get(suite) ?? { minutes: 0, limit: 0, slowLimit: 0 };
  sum.minutes += result.minutes;
  sum.limit += limit;
  sum.slowLimit += limit * slowness;
  sums.set(suite, sum);
  isPassed &&= result.isPassed && !isLate;
  files.push(...result.files);
  failures.push(...result.failures);
  skipped.push(...result.skipped);
  retried.push(...result.retried);
  total.passed += result.tests.passed;
  total.failed += result.tests.failed;
  total.skipped += result.tests.skipped;
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
if (skipped.length > 0) print('\nNot run on this machine:');
for (const name of skipped) print(`  ${name}`);
if (retried.length > 0) print('\nNeeded a second attempt:');
for (const name of retried) print(`  ${name}`);
if (failures.length > 0) print('\nFailed tests:');
for (const failure of failures) print(`  ${failure}`);
print(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = isPassed ? 0 : 1;
