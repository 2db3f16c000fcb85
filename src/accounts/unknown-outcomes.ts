import { PartylineError } from '../protocol/errors.ts';
import { mayHaveRun } from '../store/redis.ts';

/** Answer to the sender of a write of which it is not known whether it took effect. */
type UnknownOutcome = {
  advice: string;
  /** True if clients may repeat the write by themselves: it is then `overloaded`, with a time, otherwise `internal_error`. */
  mayRepeat: boolean;
};

/**
 * Runs a write.
 * @param unknown answer if Redis does not answer, and may have written all the same
 * @throws {PartylineError} as `write` does, or the answer
 */
export async function adviseIfUnknown<T>(
  write: () => Promise<T>,
  { advice, mayRepeat }: UnknownOutcome,
): Promise<T> {
  try {
    return await write();
  } catch (fault) {
    if (!(fault instanceof PartylineError && mayHaveRun(fault))) throw fault;
    const { cause, retryAfterMs } = fault;
    const retry = mayRepeat && retryAfterMs !== undefined && { retryAfterMs };
    const code = mayRepeat ? 'overloaded' : 'internal_error';
    throw new PartylineError(code, advice, { cause, ...retry });
  }
}

/** Answer about a new account. @param url its webhook URL, if it has one: the secret has not been shown */
export const perhapsCreated = (id: number, url: string | undefined): UnknownOutcome => ({
  advice: `It is not known whether account ${id} was created. Look for it before you create another; if there is one, add a key to it${urlAgain(url)}.`,
  mayRepeat: false,
});

/** Answer about a change of an account. @param url its webhook URL, if that is set: the secret has not been shown */
export const perhapsChanged = (id: number, url: string | undefined): UnknownOutcome => ({
  advice: `It is not known whether account ${id} was changed. ${url ? 'Set the webhook URL again, which makes another secret.' : 'Look at the account, or repeat the change.'}`,
  mayRepeat: true,
});

/** Answer about a new key, which has not been shown. */
export const perhapsAdded = (accountId: number, keyId: string): UnknownOutcome => ({
  advice: `It is not known whether key ${keyId} was added to account ${accountId}. If the account has it, revoke it, because it was not shown; then add another.`,
  mayRepeat: false,
});

/** Answer about a key that was to be revoked. */
export const perhapsRevoked = (accountId: number, keyId: string): UnknownOutcome => ({
  advice: `It is not known whether key ${keyId} of account ${accountId} was revoked. Repeat it: if there is no such key, it was.`,
  mayRepeat: true,
});

/** Answer about a change of the key that signs tokens. */
export const perhapsRotated: UnknownOutcome = {
  advice: 'It is not known whether tokens are signed with a new key. Repeat it.',
  mayRepeat: true,
};

/** Returns what to do about a new account whose key was not added, or cannot be shown. */
export const createdWithoutKey = (id: number, url: string | undefined): string =>
  `Account ${id} was created, but no key of it can be shown. Revoke any key that it has${url ? ', add another' : ', and add another'}${urlAgain(url)}.`;

const urlAgain = (url: string | undefined) => (url ? ', and set its webhook URL again' : '');
