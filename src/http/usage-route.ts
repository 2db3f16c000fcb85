import { UsageQuerySchema, UsageReportSchema } from '../usage/report.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';
import type { UsageReports } from './usage-reports.ts';

/** `GET /api/usage`: usage of the account of an API key, by time and room. */
export function registerUsageRoute(
  server: RestServer,
  { guard, reports }: { guard: RestGuard; reports: UsageReports },
): void {
  const schema = {
    summary: 'Usage of the account, by time and room; the sum is that of /api/me',
    security: [{ apiKey: [] }],
    querystring: UsageQuerySchema,
    response: { 200: UsageReportSchema },
  };
  server.get('/api/usage', { schema, onRequest: guard.client }, async (request, reply) => {
    const { account } = guard.credentialsOf(request);
    return reports.send(reply, account.id, request.query);
  });
}
