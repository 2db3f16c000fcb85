import { Type } from 'typebox';
import { AccountSchema } from '../accounts/stored-account.ts';
import type { CcuLeases } from '../usage/ccu-leases.ts';
import { readSummary, SummarySchema } from '../usage/summary.ts';
import type { RecentUsage } from '../usage/recent-usage.ts';
import type { RedisClock } from '../store/redis-clock.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

type MeParts = { guard: RestGuard; leases: CcuLeases; usage: RecentUsage; clock: RedisClock };

const MeSchema = Type.Object({ account: AccountSchema, summary: SummarySchema });

/** `GET /api/me`: the account of an API key, and its usage (docs/protocol.md §1). */
export function registerMeRoute(
  server: RestServer,
  { guard, leases, usage, clock }: MeParts,
): void {
  const schema = {
    summary: 'The account of the API key, and its usage this month',
    security: [{ apiKey: [] }],
    response: { 200: MeSchema },
  };
  server.get('/api/me', { schema, onRequest: guard.client }, async (request) => {
    const { account } = guard.credentialsOf(request);
    return { account, summary: await readSummary(usage, leases, account, clock.wallMs()) };
  });
}
