import type { FastifyRequest } from 'fastify';
import type { Account, Accounts } from '../accounts/accounts.ts';
import { PartylineError } from '../protocol/errors.ts';

/**
 * The account of a request's `Authorization: Bearer <API key>` (RFC 6750 §2.1).
 * @throws {PartylineError} `unauthorized`, `overloaded`
 */
export async function authenticate(request: FastifyRequest, accounts: Accounts): Promise<Account> {
  const [scheme, apiKey] = (request.headers.authorization ?? '').split(' ');
  if (scheme?.toLowerCase() !== 'bearer' || !apiKey) {
    throw new PartylineError('unauthorized', 'Send "Authorization: Bearer <API key>".');
  }
  const credentials = await accounts.findByKey(apiKey);
  if (!credentials) throw new PartylineError('unauthorized', 'The API key is not known.');
  return credentials.account;
}
