/** Reporter of vitest: writes what `scripts/test.mjs` needs of a run into the file that `PARTYLINE_TEST_REPORT` names, as JSON. */
import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import { root } from '../set-up/project.mjs';

/**
 * @typedef {import('vitest/node').TestModule} TestModule
 * @typedef {import('vitest/node').TestSuite} TestSuite
 * @typedef {import('vitest/node').TestCase} TestCase
 * @typedef {import('vitest').SerializedError} SerializedError
 * @typedef {{ name: string, minutes: number, isPassed: boolean, passed: number, failures: string[], skipped: string[] }} FileResult
 * @typedef {{ files: FileResult[], faults: string[] }} Report `faults` happened outside the files, or nobody knows in which
 */

/** Maximum number of characters that are kept of one error. */
const LONGEST_REASON = 300;

/** @param {readonly { message?: string, stack?: string }[]} errors */
const reasonsOf = (errors) =>
  errors.map(({ stack, message = '' }) => `\n    ${(stack ?? message).slice(0, LONGEST_REASON)}`);

/**
 * @param {TestModule} file
 * @returns {FileResult}
 */
function resultOf(file) {
  const { collectDuration, setupDuration, duration } = file.diagnostic();
  const name = relative(root, file.moduleId);
  // Files of a process that died are still pending.
  const isPassed = file.ok() && !['pending', 'queued'].includes(file.state());
  /** @type {FileResult} */
  const result = {
    name,
    minutes: (collectDuration + setupDuration + duration) / 60_000,
    isPassed,
    passed: 0,
    failures: [],
    skipped: [],
  };
  // Hooks that fail belong to a suite, or to the file; vitest then calls the tests skipped.
  for (const suite of [file, ...file.children.allSuites()]) {
    const errors = reasonsOf(suite.errors());
    const of = suite.type === 'suite' ? ` > ${suite.fullName}` : '';
    if (errors.length > 0) result.failures.push(`${name}${of}${errors.join('')}`);
  }
  for (const test of file.children.allTests()) {
    const { state, errors = [] } = test.result();
    if (state === 'passed') result.passed += 1;
    else if (state === 'failed')
      result.failures.push(`${name} > ${test.fullName}${reasonsOf(errors).join('')}`);
    else if (isPassed) result.skipped.push(`${name} > ${test.fullName}`);
  }
  return result;
}

export default class {
  /**
   * @param {readonly TestModule[]} files
   * @param {readonly SerializedError[]} errors outside of tests, such as a rejection that nobody handles
   */
  onTestRunEnd(files, errors) {
    /** @type {Report} */
    const report = {
      files: files.map(resultOf),
      faults: errors.map((error) => `outside of tests${reasonsOf([error]).join('')}`),
    };
    const path = process.env['PARTYLINE_TEST_REPORT'];
    if (path) writeFileSync(path, JSON.stringify(report));
  }
}
