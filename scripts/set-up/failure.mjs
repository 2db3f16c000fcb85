/** Failures that set-up expects: they end it with one sentence for a person, without a stack trace. */

/** The message is that sentence: what is missing and, where there is one, the command that helps. */
export class SetUpFailure extends Error {}

/** Error codes of a machine that lets the program write nothing, or has no space left. */
const refusals = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT']);

/**
 * Tells an expected failure from a mistake in these scripts, which goes on as it is.
 *
 * @param {any} error
 * @returns {SetUpFailure}
 */
export function asFailure(error) {
  if (error instanceof SetUpFailure) return error;
  if (refusals.has(error?.code)) {
    return new SetUpFailure(`Set-up cannot go on, because the machine refuses: ${error.message}.`);
  }
  throw error;
}
