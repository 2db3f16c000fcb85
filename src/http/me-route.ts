import { Type } from 'typebox';
import { AccountSchema } from '../accounts/accounts.ts';
import type { CcuLeases } from '../usage/ccu-leases.ts';
import { readSummary, SummarySchema } from '../usage/summary.ts';
import { RecentUsage } from '../usage/recent-usage.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

const MeSchema = Type.Object({ account: AccountSchema, summary: SummarySchema });

/** `GET /api/me`: the account of an API key, and what it has used (docs/protocol.md §1). */
export function registerMeRoute(
  server: RestServer,
  { guard, leases, usage }: { guard: RestGuard; leases: CcuLeases; usage: UsageStore },
): void {
  const recentUsage = new RecentUsage(usage);
  const schema = {
    summary: 'The account of the API key, and what it has used this month',
    security: [{ apiKey: [] }],
    response: { 200: MeSchema },
  };
  server.get('/api/me', { schema }, async (request) => {
    const { account } = await guard.client(request);
    return { account, summary: await readSummary(recentUsage, leases, account) };
  });
}
