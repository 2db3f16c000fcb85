import { Type } from 'typebox';
import { type Accounts, ApiKeySchema } from '../accounts/accounts.ts';
import { createWithKey } from '../accounts/create-with-key.ts';
import { ChangedAccountSchema, StoredAccountSchema } from '../accounts/stored-account.ts';
import { UsageQuerySchema, UsageReportSchema } from '../usage/report.ts';
import { sendAccounts } from './account-list.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';
import type { UsageReports } from './usage-reports.ts';

const { name, email, plan, status, ...stored } = StoredAccountSchema.properties;
const { default_audio, pinned_audio, webhook_url } = stored;
const optional = { default_audio, pinned_audio, webhook_url };
const NewAccountSchema = Type.Object(
  { name, email, plan, ...optional },
  { additionalProperties: false },
);
const ChangesSchema = Type.Partial(Type.Object({ name, email, plan, status, ...optional }), {
  additionalProperties: false,
});
const NewKeySchema = Type.Object({ key_id: Type.String(), api_key: Type.String() });
const IdSchema = Type.Object({ id: Type.Integer({ minimum: 1 }) });
const KeySchema = Type.Object({ ...IdSchema.properties, key_id: Type.String() });
/** Request of a drain. */
export const DrainSchema = Type.Object(
  {
    /** Time that clients have to leave, ms; by default DRAIN_MS. */
    deadline_ms: Type.Optional(Type.Integer({ minimum: 0, maximum: 86_400_000 })),
  },
  { additionalProperties: false },
);
/** Time that clients actually have to leave, ms: less if they were asked before. */
export const DrainingSchema = Type.Object({ deadline_ms: Type.Integer() });
const security = [{ operatorKey: [] }];
const ROOT = '/api/admin/accounts';

export type AdminParts = {
  guard: RestGuard;
  accounts: Accounts;
  reports: UsageReports;
  /**
   * Ends the node when its clients have left, or after `withinMs`.
   * @param by requester, for the log
   * @returns the time that clients have to leave, ms
   */
  drain: (withinMs: number | undefined, by: string) => number;
};

/** Routes under `/api/admin`: accounts, as in `npm run accounts` but for `rotate-token-key`, and the node's drain. */
export function registerAdminRoutes(server: RestServer, parts: AdminParts): void {
  registerAccounts(server, parts);
  registerKeys(server, parts);
  registerUsage(server, parts);
  registerDrain(server, parts);
}

function registerAccounts(
  server: RestServer,
  { guard, accounts }: Pick<AdminParts, 'guard' | 'accounts'>,
): void {
  server.get(
    ROOT,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'All accounts',
        security,
        response: { 200: Type.Object({ accounts: Type.Array(StoredAccountSchema) }) },
      },
    },
    async (_request, reply) => sendAccounts(reply, accounts),
  );
  server.post(
    ROOT,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Create an account, with a key that is shown only once',
        security,
        body: NewAccountSchema,
        response: {
          201: Type.Object({ account: ChangedAccountSchema, ...NewKeySchema.properties }),
        },
      },
    },
    async (request, reply) => {
      const { account, key } = await createWithKey(accounts, request.body);
      return reply.code(201).send({ account, key_id: key.id, api_key: key.apiKey });
    },
  );
  server.get(
    `${ROOT}/:id`,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'An account and its keys',
        security,
        params: IdSchema,
        response: {
          200: Type.Object({ account: StoredAccountSchema, keys: Type.Array(ApiKeySchema) }),
        },
      },
    },
    async (request) => {
      const { id } = request.params;
      return { account: await accounts.getOrThrow(id), keys: await accounts.listKeys(id) };
    },
  );
  server.patch(
    `${ROOT}/:id`,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Change an account; the change applies to connected clients at once',
        security,
        params: IdSchema,
        body: ChangesSchema,
        response: { 200: ChangedAccountSchema },
      },
    },
    (request) => accounts.update(request.params.id, request.body),
  );
}

function registerKeys(
  server: RestServer,
  { guard, accounts }: Pick<AdminParts, 'guard' | 'accounts'>,
): void {
  server.post(
    `${ROOT}/:id/keys`,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Create another key, which is shown only once',
        security,
        params: IdSchema,
        response: { 201: NewKeySchema },
      },
    },
    async (request, reply) => {
      const { id, apiKey } = await accounts.addKey(request.params.id);
      return reply.code(201).send({ key_id: id, api_key: apiKey });
    },
  );
  server.delete(
    `${ROOT}/:id/keys/:key_id`,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Revoke a key; its connections are closed',
        security,
        params: KeySchema,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await accounts.revokeKey(request.params.id, request.params.key_id);
      return reply.code(204).send(null);
    },
  );
}

function registerUsage(
  server: RestServer,
  { guard, accounts, reports }: Pick<AdminParts, 'guard' | 'accounts' | 'reports'>,
): void {
  server.get(
    `${ROOT}/:id/usage`,
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Usage of an account, by time and room',
        security,
        params: IdSchema,
        querystring: UsageQuerySchema,
        response: { 200: UsageReportSchema },
      },
    },
    async (request, reply) => {
      const { id } = await accounts.getOrThrow(request.params.id);
      return reports.send(reply, id, request.query);
    },
  );
}

function registerDrain(
  server: RestServer,
  { guard, drain }: Pick<AdminParts, 'guard' | 'drain'>,
): void {
  server.post(
    '/api/admin/drain',
    {
      onRequest: guard.operator,
      schema: {
        summary:
          'Drain this node and the others of its group: each ends when its clients have left, or at the deadline',
        security,
        body: DrainSchema,
        response: { 202: DrainingSchema },
      },
    },
    async (request, reply) => {
      const leftMs = drain(request.body.deadline_ms, `POST /api/admin/drain from ${request.ip}`);
      return reply.code(202).send({ deadline_ms: leftMs });
    },
  );
}
