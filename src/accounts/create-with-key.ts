import { PartylineError } from '../protocol/errors.ts';
import type { Accounts, ChangedAccount, NewKey } from './accounts.ts';
import { createdWithoutKey } from './unknown-outcomes.ts';

/**
 * Creates an account with a key.
 * @throws {PartylineError} `bad_request`, `overloaded` if there is no account; `internal_error` if there is one without a known key, or
 *   may be
 */
export async function createWithKey(
  accounts: Accounts,
  given: Parameters<Accounts['create']>[0],
): Promise<{ account: ChangedAccount; key: NewKey }> {
  const account = await accounts.create(given);
  try {
    return { account, key: await accounts.addKey(account.id) };
  } catch (fault) {
    const { cause = fault } = PartylineError.from(fault);
    const message = createdWithoutKey(account.id, account.webhook_url);
    throw new PartylineError('internal_error', message, { cause });
  }
}
