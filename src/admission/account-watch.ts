import type { FastifyBaseLogger } from 'fastify';
import type { Accounts } from '../accounts/accounts.ts';
import type { SigningKeys } from '../accounts/signing-keys.ts';
import { ACCOUNT_CHANGES, SIGNING_KEY_CHANGES } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { Sessions } from './sessions.ts';

export type AccountWatch = {
  /** Number of changes received: while it stays the same, no account has changed. */
  changes(): number;
  /** Applies the present state of an account to its sessions and kept places. */
  check(accountId: number): void;
};

/**
 * Applies changes that an operator makes to accounts and signing keys, on any node, to the sessions and kept
 * places of this process.
 */
export async function watchAccounts(
  redis: Redis,
  accounts: Accounts,
  signingKeys: SigningKeys,
  sessions: Sessions,
  places: SuspendedPeers,
  log: FastifyBaseLogger,
): Promise<AccountWatch> {
  let changes = 0;
  const check = async (accountId: number) => {
    const concerned = sessions.of(accountId);
    if (concerned.length === 0 && places.of(accountId).length === 0) return;
    const [account, keys] = await Promise.all([
      accounts.getOrThrow(accountId),
      accounts.listKeys(accountId),
    ]);
    const state = { keyIds: new Set(keys.map(({ id }) => id)), withdrawn: signingKeys.withdrawn };
    for (const session of concerned) session.accountChanged(account, state);
    places.accountChanged(account, state);
  };
  const tryToCheck = (accountId: number) => {
    check(accountId).catch((fault: unknown) => {
      log.error({ err: fault, account: accountId }, 'change of an account not applied');
    });
  };
  const checkAll = () => {
    changes += 1;
    new Set([...sessions.accountIds(), ...places.accountIds()]).forEach(tryToCheck);
  };
  await redis.subscribe(ACCOUNT_CHANGES, {
    onMessage: (message) => {
      changes += 1;
      tryToCheck(Number(message));
    },
    // Any account may have changed.
    onGap: checkAll,
  });
  const reloadKeys = () => {
    signingKeys.reload().then(checkAll, (fault: unknown) => {
      log.error({ err: fault }, 'signing keys not loaded');
    });
  };
  await redis.subscribe(SIGNING_KEY_CHANGES, { onMessage: reloadKeys, onGap: reloadKeys });
  return { changes: () => changes, check: tryToCheck };
}
