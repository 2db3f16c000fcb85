import { describeFormats } from '../../src/audio/format.ts';
import { CLOSE_CODES, CLOSE_MEANINGS, isRetryable } from '../../src/protocol/close-codes.ts';
import { PartylineError } from '../../src/protocol/errors.ts';
import { WHIP_PROBLEMS } from '../../src/whip/problems.ts';
import { code, tableOf } from './markdown.mjs';

/** Tables of docs/protocol.md. */

/** @typedef {import('../../src/protocol/close-codes.ts').ErrorCode} ErrorCode */

/**
 * Returns the entries of an object whose keys are codes of errors.
 * @template T
 * @param {Partial<Record<ErrorCode, T>>} object
 */
const entriesOf = (object) => /** @type {[ErrorCode, T][]} */ (Object.entries(object));

/** @param {string[]} texts */
const distinct = (texts) => [...new Set(texts)];

/** Returns the table of close codes: a row for each, with all errors that have it. */
export function closeCodesTable() {
  const byNumber = Map.groupBy(entriesOf(CLOSE_MEANINGS), ([name]) => CLOSE_CODES[name]);
  const rows = [...byNumber]
    .toSorted(([a], [b]) => a - b)
    .map(([closeCode, faults]) => [
      String(closeCode),
      faults.map(([name]) => code(name)).join(' / '),
      distinct(faults.map(([name]) => (isRetryable(name) ? 'yes' : 'no'))).join(' / '),
      faults.map(([, { when }]) => when).join('; '),
      distinct(faults.map(([, { client }]) => client)).join(' / '),
    ]);
  const closedByClient = ['1000', '–', '–', 'client closed', '–'];
  const head = ['close', '`code`', '`retryable`', 'when', 'client should'];
  return tableOf(head, [closedByClient, ...rows]);
}

/** Returns the table of the values of `audio`. */
export function formatsTable() {
  const rows = describeFormats().map(({ value, meaning, isInputOnly }) => [
    code(value) + (value === 'auto' ? ' (the default)' : ''),
    meaning + (isInputOnly ? ' — input only' : ''),
  ]);
  return tableOf(['value', 'meaning of one binary message'], rows);
}

/** Returns the table of the errors of WHIP and WHEP, by status. */
export function whipProblemsTable() {
  const rows = entriesOf(WHIP_PROBLEMS)
    .map(([name, when]) => ({ status: new PartylineError(name, '').kind.status, name, when }))
    .toSorted((a, b) => a.status - b.status)
    .map(({ status, name, when }) => [String(status), code(name), when]);
  return tableOf(['status', '`code`', 'when'], rows);
}
