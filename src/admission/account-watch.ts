import type { FastifyBaseLogger } from 'fastify';
import type { Timings } from '../../config/timings.ts';
import { LogOnceASecond } from '../log-once-a-second.ts';
import type { Accounts } from '../accounts/accounts.ts';
import type { SigningKeys } from '../accounts/signing-keys.ts';
import { PartylineError } from '../protocol/errors.ts';
import { ACCOUNT_CHANGES, SIGNING_KEY_CHANGES } from '../store/keys.ts';
import type { Redis } from '../store/redis.ts';
import type { SuspendedPeers } from '../session/suspended-peers.ts';
import type { Sessions } from './sessions.ts';

export type AccountWatch = {
  /** Number of changes received: while it stays the same, no account has changed. */
  changes(): number;
  /** Applies the present state of an account to its sessions and kept places; retries later if Redis does not answer. */
  check(accountId: number): void;
  close(): void;
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
  { retryAfterMs }: Pick<Timings['redis'], 'retryAfterMs'>,
): Promise<AccountWatch> {
  let changes = 0;
  /** Accounts whose changes could not be applied yet. */
  const unapplied = new Set<number>();
  let areKeysUnread = false;
  let retry: NodeJS.Timeout | undefined;
  let isClosed = false;
  const faults = new LogOnceASecond();
  const retryLater = () => {
    if (isClosed) return;
    retry ??= setTimeout(() => {
      retry = undefined;
      if (areKeysUnread) reloadKeys();
      for (const accountId of unapplied) tryToCheck(accountId);
    }, retryAfterMs);
  };
  /** Ends the clients of an account that Redis does not have any more: it was created after the backup that was restored. */
  const endMissing = async (accountId: number) => {
    // A Redis that lost all its data knows no account, or only the demo account of a node that has
    // started since. Calls go on until it is restored.
    if (!(await accounts.hasAny())) {
      log.error(
        { account: accountId },
        'account not checked: redis has no accounts but the demo account',
      );
      return;
    }
    log.warn({ account: accountId }, 'clients of an account closed: redis does not have it');
    const fault = new PartylineError('unauthorized', 'The account does not exist any more.');
    for (const session of sessions.of(accountId)) session.fail(fault);
    for (const kept of places.of(accountId)) kept.end(fault.code);
  };
  const check = async (accountId: number) => {
    const concerned = sessions.of(accountId);
    if (concerned.length === 0 && places.of(accountId).length === 0) return;
    const [account, keyIds] = await Promise.all([
      accounts.find(accountId),
      accounts.findKeyIds(accountId),
    ]);
    if (!account) return endMissing(accountId);
    const state = { keyIds, withdrawn: signingKeys.withdrawn };
    for (const session of concerned) session.accountChanged(account, state);
    places.accountChanged(account, state);
  };
  const tryToCheck = (accountId: number) => {
    unapplied.delete(accountId);
    check(accountId).catch((fault: unknown) => {
      faults.error(log, { err: fault, account: accountId }, 'change of an account not applied');
      if (!(fault instanceof PartylineError) || fault.code !== 'overloaded') return;
      unapplied.add(accountId);
      retryLater();
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
    areKeysUnread = false;
    signingKeys.reload().then(checkAll, (fault: unknown) => {
      log.error({ err: fault }, 'signing keys not loaded; retrying');
      areKeysUnread = true;
      retryLater();
    });
  };
  await redis.subscribe(SIGNING_KEY_CHANGES, { onMessage: reloadKeys, onGap: reloadKeys });
  const close = () => {
    isClosed = true;
    clearTimeout(retry);
  };
  return { changes: () => changes, check: tryToCheck, close };
}
