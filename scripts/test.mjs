/**
 * Runs the tests part by part, prints the minutes of each part and the slowest files, and fails when a part takes half as
 * long again as its limit: `node scripts/test.mjs` is the suite of `npm test`, `node scripts/test.mjs long` that of
 * `npm run test:long`.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join, relative } from 'node:path';
import { build, readJson, root } from './set-up/project.mjs';

const TOLERANCE = 1.5;
const SLOWEST_FILES = 10;

/**
 * Minutes that each part may take on two cores; those of `npm test` are to add up to eight, and add up to ten. Every part but `check` is a project
 * of vitest.config.ts.
 */
const SUITES = {
  short: { check: 0.5, unit: 0.7, simulation: 1.1, waiting: 2.9, listening: 3.7, e2e: 1.6 },
  long: { long: 20 },
};

/**
 * @typedef {{ name: string, minutes: number }} Timed
 * @typedef {{ minutes: number, isPassed: boolean, tests: { passed: number, failed: number, skipped: number }, files: Timed[] }} Result
 */

/**
 * @param {string} part
 * @returns {Result}
 */
function runPart(part) {
  const startMs = performance.now();
  const report = join(build, 'tests', `${part}.json`);
  rmSync(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const command =
    part === 'check' ? ['npm', 'run', 'check'] : ['vitest', 'run', '--project', part, ...reporters];
  const [program = '', ...words] = command;
  const { status } = spawnSync(program, words, { stdio: 'inherit', cwd: root });
  const minutes = (performance.now() - startMs) / 60_000;
  const counted = part === 'check' ? { tests: none(), files: [] } : readReport(report);
  return { minutes, isPassed: status === 0, ...counted };
}

const none = () => ({ passed: 0, failed: 0, skipped: 0 });

/**
 * @param {string} path of vitest's JSON report; there is none if it did not start
 */
function readReport(path) {
  try {
    const { numPassedTests, numFailedTests, numPendingTests, testResults } = readJson(path);
    return {
      tests: { passed: numPassedTests, failed: numFailedTests, skipped: numPendingTests },
      files: testResults.map(
        (/** @type {{ name: string, startTime: number, endTime: number }} */ file) => ({
          name: relative(root, file.name),
          minutes: (file.endTime - file.startTime) / 60_000,
        }),
      ),
    };
  } catch {
    return { tests: none(), files: [] };
  }
}

const print = (line = '') => process.stdout.write(`${line}\n`);

/** @param {number} minutes */
const format = (minutes) => minutes.toFixed(2).padStart(6);

const suite = process.argv[2] === 'long' ? SUITES.long : SUITES.short;
mkdirSync(join(build, 'tests'), { recursive: true });

let isPassed = true;
const total = none();
/** @type {Timed[]} */
const files = [];
const lines = [];
for (const [part, limit] of Object.entries(suite)) {
  const result = runPart(part);
  const isLate = result.minutes > TOLERANCE * limit;
  isPassed &&= result.isPassed && !isLate;
  files.push(...result.files);
  total.passed += result.tests.passed;
  total.failed += result.tests.failed;
  total.skipped += result.tests.skipped;
  const verdict = [!result.isPassed && 'failed', isLate && 'too slow'].filter(Boolean).join(', ');
  lines.push(`${format(result.minutes)} of ${format(limit)}  ${part}  ${verdict}`.trimEnd());
}

print('\nMinutes of each part, and its limit on two cores:');
for (const line of lines) print(line);
print('\nSlowest files:');
for (const { name, minutes } of files
  .toSorted((a, b) => b.minutes - a.minutes)
  .slice(0, SLOWEST_FILES)) {
  print(`${format(minutes)}  ${name}`);
}
print(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = isPassed ? 0 : 1;
