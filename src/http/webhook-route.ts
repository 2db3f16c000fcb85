import { Type } from 'typebox';
import type { Accounts } from '../accounts/accounts.ts';
import type { WebhookOutbox } from '../webhooks/webhook-outbox.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

const WaitingSchema = Type.Object({
  waiting: Type.Integer(),
  /** When the oldest event that waits happened; left out if none waits. */
  oldest_created_at: Type.Optional(Type.String()),
  dropped: Type.Integer(),
});

/** `GET /api/admin/accounts/:id/webhook`: the events of an account that wait to be sent, and those that were given up. */
export function registerWebhookRoute(
  server: RestServer,
  { guard, accounts, outbox }: { guard: RestGuard; accounts: Accounts; outbox: WebhookOutbox },
): void {
  const schema = {
    summary: 'Webhook events of an account that wait to be sent, and how many were given up',
    security: [{ operatorKey: [] }],
    params: Type.Object({ id: Type.Integer({ minimum: 1 }) }),
    response: { 200: WaitingSchema },
  };
  const options = { schema, onRequest: guard.operator };
  server.get('/api/admin/accounts/:id/webhook', options, async (request) => {
    const { id } = await accounts.getOrThrow(request.params.id);
    const { events, oldestMs, dropped } = await outbox.countOf(id);
    const oldest = oldestMs !== undefined && {
      oldest_created_at: new Date(oldestMs).toISOString(),
    };
    return { waiting: events, ...oldest, dropped };
  });
}
