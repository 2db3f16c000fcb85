import { Accounts } from '../accounts/accounts.ts';
import { Authenticator } from '../accounts/authenticator.ts';
import { openDemoAccount } from '../accounts/demo-account.ts';
import { Invites } from '../accounts/invites.ts';
import { RateLimits } from '../accounts/rate-limits.ts';
import { SigningKeys } from '../accounts/signing-keys.ts';
import { Tokens } from '../accounts/tokens.ts';
import type { Store } from './open-store.ts';
import type { Opening } from './opening.ts';

export type AccountParts = Awaited<ReturnType<typeof openAccounts>>;

/** Opens accounts, their tokens, their invitations and the limits of authentication, and creates the demo account. */
export async function openAccounts({ settings, log, shared }: Opening, { redis, clock }: Store) {
  const accounts = new Accounts(redis);
  // With several gateway processes the supervisor has created it.
  const demo = shared ? undefined : await openDemoAccount(redis, settings, log);
  const limits = new RateLimits(redis, {
    authFailuresPerAddress: settings.AUTH_FAILURES_PER_ADDRESS,
    authFailuresPerKeyPrefix: settings.AUTH_FAILURES_PER_KEY,
    requestsPerAccount: settings.REQUESTS_PER_ACCOUNT,
  });
  const signingKeys = new SigningKeys(redis, clock);
  const tokens = new Tokens(signingKeys);
  const invites = new Invites(signingKeys);
  const authenticator = new Authenticator(accounts, tokens, invites, limits);
  return { accounts, demo, limits, signingKeys, tokens, invites, authenticator };
}
