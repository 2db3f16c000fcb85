/** Failures that set-up expects: it ends with one sentence, without a stack trace. */

/** Expected failure. Its message is a sentence that names what is missing and, if there is one, the command that helps. */
export class SetUpFailure extends Error {}

/** Error codes of a system that refuses a write, or has no space left. */
const refusals = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT']);

/**
 * Returns an expected failure. Throws any other error, which is a mistake in these scripts.
 *
 * @param {any} error
 * @returns {SetUpFailure}
 */
export function asFailure(error) {
  if (error instanceof SetUpFailure) return error;
  if (refusals.has(error?.code)) {
    return new SetUpFailure(
      `Set-up stopped, because the system refused an operation: ${error.message}.`,
    );
  }
  throw error;
}
