import type { Account } from '../accounts/accounts.ts';
import { startUsageWorker } from '../children/usage-worker-process.ts';
import { CcuLeases } from '../usage/ccu-leases.ts';
import { LastUsage } from '../usage/last-usage.ts';
import { Meter } from '../usage/meter.ts';
import { Quota } from '../usage/quota.ts';
import { RecentUsage } from '../usage/recent-usage.ts';
import { roomCountsWithin } from '../usage/room-counts.ts';
import { UsageReporter } from '../usage/usage-reporter.ts';
import { UsageStore } from '../usage/usage-store.ts';
import { Webhooks } from '../webhooks/webhooks.ts';
import type { AccountParts } from './open-accounts.ts';
import type { Clients } from './open-clients.ts';
import type { Store } from './open-store.ts';
import type { Opening } from './opening.ts';

export type UsageParts = Awaited<ReturnType<typeof openUsage>>;

/** Opens everything that counts what accounts use: minutes, quotas, webhooks, leases of connections, and the usage workers. */
export async function openUsage(
  opening: Opening,
  { redis, clock }: Store,
  { accounts }: AccountParts,
  clients: Clients,
) {
  const { settings, timings, log, opened } = opening;
  const store = new UsageStore(redis);
  const recent = new RecentUsage(store, timings.usage);
  // Beyond this the node stood still: others took it for dead, and its peers may have been on
  // another node.
  const longestStepMs = timings.usage.writeEveryMs + timings.nodes.deadAfterMs;
  const mayCount = roomCountsWithin((accountId) => accountOf(clients, accountId));
  const meter = new Meter(clock, longestStepMs, mayCount);
  const last = new LastUsage(store, settings.DATA_DIR, log, timings.usage);
  await last.writeLeft(clock.wallMs());
  const webhooks = opened.adopt(
    await Webhooks.open(redis, accounts, log, timings.webhooks, {
      wallMs: clock.wallMs,
      maxEvents: settings.WEBHOOK_MAX_EVENTS,
      keepMs: settings.RESUME_MS,
    }),
    (part) => part.close(),
  );
  const quota = openQuota({ recent, clock, webhooks }, clients);
  for (let worker = 0; worker < settings.USAGE_WORKERS; worker += 1) {
    opened.adopt(startUsageWorker(settings, log, timings), (part) => part.close());
  }
  const leases = opened.adopt(
    new CcuLeases(
      redis,
      log,
      (...taken) => clients.sessions.replace(...taken),
      timings.leases,
      settings.RESUME_MS,
    ),
    (part) => part.close(),
  );
  return { store, last, recent, meter, webhooks, quota, leases };
}

/** Returns an account, if it has a client or a kept place here. */
function accountOf({ sessions, places }: Clients, accountId: number): Account | undefined {
  return sessions.firstOf(accountId)?.account ?? places.firstOf(accountId)?.place.account;
}

type Clock = Store['clock'];

/** Opens the quota, which warns the clients of an account when its minutes run low, and closes them when they are used up. */
function openQuota(
  { recent, clock, webhooks }: { recent: RecentUsage; clock: Clock; webhooks: Webhooks },
  { sessions, places }: Clients,
): Quota {
  return new Quota(recent, clock, {
    onWarning: (accountId, remainingMinutes, resetsAt) => {
      const warning = {
        remaining_minutes: Math.round(remainingMinutes * 100) / 100,
        resets_at: resetsAt,
      };
      for (const session of sessions.of(accountId)) {
        session.notify({ type: 'quota_warning', ...warning });
      }
    },
    onExhausted: (accountId, resetsAt) => {
      webhooks.quotaExhausted(accountId, resetsAt);
      for (const session of sessions.of(accountId)) session.exhaust(resetsAt);
      places.exhaust(accountId);
    },
  });
}

/**
 * Opens the reporter, which writes metered time to Redis and feeds the answer back into the quota. To be opened after the parts that
 * remove their entries from Redis, so that it is closed before them: the process may be killed while they wait for a Redis that hangs.
 */
export function openReporter(
  { log, timings, opened }: Opening,
  { clock }: Store,
  usage: UsageParts,
  clients: Clients,
): void {
  const { recent, quota } = usage;
  const onTotal = (accountId: number, monthMs: number, wallMs: number) => {
    // A peer that joins right after the quota ran out must be told as well.
    recent.learn(accountId, wallMs, monthMs);
    const account = accountOf(clients, accountId);
    if (account) quota.update(accountId, account.plan, monthMs, wallMs);
  };
  opened.adopt(new UsageReporter({ ...usage, clock }, log, onTotal, timings.usage), (part) =>
    part.close(),
  );
}
