import { watchAccounts } from '../admission/account-watch.ts';
import { Drain } from '../admission/drain.ts';
import { SuspendedPeers } from '../session/suspended-peers.ts';
import { Sessions } from '../admission/sessions.ts';
import type { AccountParts } from './open-accounts.ts';
import type { Store } from './open-store.ts';
import type { Opening } from './opening.ts';

export type Clients = Awaited<ReturnType<typeof openClients>>;

/** Opens the lists of clients and of kept places, and has both follow changes of their accounts. */
export async function openClients(
  { settings, timings, log, opened }: Opening,
  { redis }: Store,
  { accounts, signingKeys }: AccountParts,
) {
  const sessions = new Sessions(timings.sessions);
  const drain = new Drain(sessions, log);
  const places = new SuspendedPeers(settings.RESUME_MS);
  const accountWatch = opened.adopt(
    await watchAccounts(redis, accounts, signingKeys, sessions, places, log, timings.redis),
    (watch) => watch.close(),
  );
  return { sessions, drain, places, accountWatch };
}
