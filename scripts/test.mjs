/**
 * Runs the tests part by part; prints the minutes of each part, the slowest files, and the tests that were skipped, retried or failed. Fails when a
 * part takes more than 1.5 times its limit, which grows with the measured slowness of the machine. `node scripts/test.mjs` is the suite of
 * `npm test`, `node scripts/test.mjs long` that of `npm run test:long`, `node scripts/test.mjs deploy` that of `npm run test:deploy`;
 * `node scripts/test.mjs short long` runs two of them.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { build, root } from './set-up/project.mjs';
import { measureSlowness } from './test/machine-speed.mjs';
import { emptyReport, readReport } from './test/report.mjs';

const TOLERANCE = 1.5;
/** Slowness of a machine beyond which a limit grows no further: the run must end some time. */
const MOST_SLOWNESS = 4;
const SLOWEST_FILES = 10;

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

/** Parts that listen and wait in real time: a machine that stands still for a moment may fail a test. */
const REAL_TIME_PARTS = new Set(['waiting', 'listening', 'hearing', 'e2e', 'long']);
/** Files of a part that are run again at most: if tests fail in more, it is not the machine. */
const MOST_FILES_AGAIN = 2;

/** Time that a process may take to end after the one that started it. */
const ENDING_MS = 3000;
/** Tells the processes of this run from those of a gateway that somebody uses beside it. */
const RUN = `PARTYLINE_TEST_RUN=${randomUUID()}`;
const env = { ...process.env, PARTYLINE_TEST_RUN: RUN.split('=')[1] };
/** Characters of a command that is printed: that of a browser has thousands. */
const LONGEST_COMMAND = 200;

/**
 * @typedef {import('./test/report.mjs').Report} Report
 * @typedef {Report & { minutes: number, isPassed: boolean, retried: string[] }} Result
 */

/**
 * @param {string} part
 * @returns {Promise<Result>}
 */
async function runPart(part) {
  const startMs = performance.now();
  const first = part === 'check' ? runCheck() : runTests(part, part, []);
  const second = runAgain(part, first);
  const minutes = (performance.now() - startMs) / 60_000;
  const left = await endWhatIsLeft();
  for (const leftover of left) print(`Left behind by ${part}: ${leftover}`);
  const isPassed = (second ?? first).isPassed && left.length === 0;
  return {
    ...first,
    minutes,
    isPassed,
    tests: second?.isPassed ? allPassed(first.tests) : first.tests,
    failures: second ? second.failures : first.failures,
    retried: second ? first.failures.map(({ text }) => text) : [],
  };
}

/** @param {Report['tests']} tests */
const allPassed = ({ passed, failed, skipped }) => ({
  passed: passed + failed,
  failed: 0,
  skipped,
});

function runCheck() {
  const { status } = spawnSync('npm', ['run', 'check'], { stdio: 'inherit', cwd: root, env });
  return { ...emptyReport(), isPassed: status === 0 };
}

/**
 * @param {string} part
 * @param {string} reportName
 * @param {string[]} files all of the part, if there are none
 */
function runTests(part, reportName, files) {
  const path = join(build, 'tests', `${reportName}.json`);
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${path}`];
  const projects = (PROJECTS[part] ?? [part]).map((project) => `--project=${project}`);
  rmSync(path, { force: true });
  const { status } = spawnSync('vitest', ['run', ...projects, ...reporters, ...files], {
    stdio: 'inherit',
    cwd: root,
    env,
  });
  return { ...readReport(path), isPassed: status === 0 };
}

/**
 * Runs files again in which a test failed, whole, so that what their tests share is made again (decision 45).
 * @param {string} part
 * @param {Report} first its first attempt
 */
function runAgain(part, { failures }) {
  const files = [...new Set(failures.map(({ file }) => file))];
  const isPossible = process.env['CI'] && REAL_TIME_PARTS.has(part);
  if (!isPossible || files.length === 0 || files.length > MOST_FILES_AGAIN) return undefined;
  return runTests(part, `${part}-again`, files);
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
const total = emptyReport().tests;
/** @type {string[]} */
const failures = [];
/** @type {string[]} */
const skipped = [];
/** @type {string[]} */
const retried = [];
/** @type {Report['files']} */
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
  failures.push(...result.failures.map(({ text }) => text));
  skipped.push(...result.skipped);
  retried.push(...result.retried);
  total.passed += result.tests.passed;
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
print(`\n${total.passed} passed, ${failures.length} failed, ${total.skipped} skipped`);
process.exitCode = isPassed ? 0 : 1;
