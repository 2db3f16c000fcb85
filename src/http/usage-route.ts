import { reportUsage, UsageQuerySchema, UsageReportSchema } from '../usage/report.ts';
import type { UsageStore } from '../usage/usage-store.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

/** `GET /api/usage`: what the account of an API key has used, by time and room. */
export function registerUsageRoute(
  server: RestServer,
  { guard, usage }: { guard: RestGuard; usage: UsageStore },
): void {
  const schema = {
    summary: 'What the account has used, by time and room; the sum is that of /api/me',
    security: [{ apiKey: [] }],
    querystring: UsageQuerySchema,
    response: { 200: UsageReportSchema },
  };
  server.get('/api/usage', { schema }, async (request) => {
    const { account } = await guard.client(request);
    return reportUsage(usage, account.id, request.query, new Date());
  });
}
