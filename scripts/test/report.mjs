/** Results of a part of the tests, read from vitest's JSON report. */
import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { readJson, root } from '../set-up/project.mjs';

/**
 * @typedef {{ name: string, minutes: number }} Timed
 * @typedef {{ passed: number, failed: number, skipped: number }} Counts
 * @typedef {{ tests: Counts, files: Timed[], failures: Failure[], skipped: string[] }} Report
 * @typedef {{ file: string, text: string }} Failure of a test, or of a file that could not be loaded
 * @typedef {{ status: string, fullName: string, failureMessages: string[] }} Assertion
 * @typedef {{ name: string, startTime: number, endTime: number, message: string, assertionResults: Assertion[] }} FileReport
 */

/** Characters of what a failed test has to say. */
const LONGEST_REASON = 300;

/** @returns {Report} of what has no tests */
export const emptyReport = () => ({
  tests: { passed: 0, failed: 0, skipped: 0 },
  files: [],
  failures: [],
  skipped: [],
});

/**
 * @param {string} path of vitest's JSON report; there is none if it did not start
 * @returns {Report}
 */
export function readReport(path) {
  if (!existsSync(path)) return emptyReport();
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
  };
}

/**
 * @param {FileReport} report
 * @returns {Failure[]}
 */
function failuresOf({ name, message, assertionResults }) {
  const file = relative(root, name);
  const failed = assertionResults.filter(({ status }) => status === 'failed');
  const ofTests = failed.map(({ fullName, failureMessages }) => {
    const reasons = failureMessages.map((reason) => `\n    ${reason.slice(0, LONGEST_REASON)}`);
    return { file, text: `${file} > ${fullName}${reasons.join('')}` };
  });
  const ofFile = message ? [{ file, text: `${file}: ${message.slice(0, LONGEST_REASON)}` }] : [];
  return [...ofFile, ...ofTests];
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
