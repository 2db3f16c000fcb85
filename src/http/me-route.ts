import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { type Accounts, AccountSchema } from '../accounts/accounts.ts';
import type { CcuLeases } from '../usage/ccu-leases.ts';
import { readSummary, SummarySchema } from '../usage/summary.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import { authenticate } from './authenticate.ts';

const MeSchema = Type.Object({ account: AccountSchema, summary: SummarySchema });

/** `GET /api/me`: the account of an API key, and what it has used (docs/protocol.md §1). */
export function registerMeRoute(
  app: FastifyInstance,
  { accounts, leases, usage }: { accounts: Accounts; leases: CcuLeases; usage: UsageStore },
): void {
  const typed = app.withTypeProvider<TypeBoxTypeProvider>();
  typed.get('/api/me', { schema: { response: { 200: MeSchema } } }, async (request) => {
    const account = await authenticate(request, accounts);
    return { account, summary: await readSummary(usage, leases, account) };
  });
}
