import type { FastifyBaseLogger } from 'fastify';
import { ACCOUNT_CHANGES, type Accounts } from '../accounts/accounts.ts';
import type { Redis } from '../store/redis.ts';
import type { Sessions } from './sessions.ts';

/** Has the sessions of this process feel what an operator changes of their accounts, on whatever node. */
export async function watchAccounts(
  redis: Redis,
  accounts: Accounts,
  sessions: Sessions,
  log: FastifyBaseLogger,
): Promise<void> {
  const check = async (accountId: number) => {
    const concerned = sessions.of(accountId);
    if (concerned.length === 0) return;
    const [account, keys] = await Promise.all([
      accounts.need(accountId),
      accounts.listKeys(accountId),
    ]);
    const keyIds = new Set(keys.map(({ id }) => id));
    for (const session of concerned) session.accountChanged(account, keyIds);
  };
  const tryToCheck = (accountId: number) => {
    check(accountId).catch((fault: unknown) => {
      log.error({ err: fault, account: accountId }, 'a change of an account was not seen to');
    });
  };
  await redis.subscribe(
    ACCOUNT_CHANGES,
    (message) => tryToCheck(Number(message)),
    // Redis was away: any of them may have changed.
    () => sessions.accountIds().forEach(tryToCheck),
  );
}
