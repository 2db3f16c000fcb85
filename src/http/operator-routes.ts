import { Type } from 'typebox';
import type { Operator } from '../operator/operator.ts';
import { parseKey } from '../operator/room-lists.ts';
import {
  NodeDescriptionSchema,
  NodeListSchema,
  RoomDescriptionSchema,
  RoomListSchema,
} from '../operator/schemas.ts';
import { PartylineError } from '../protocol/errors.ts';
import { DrainingSchema, DrainSchema } from './admin-routes.ts';
import type { RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

const AccountId = Type.Integer({ minimum: 1 });
const RoomListQuerySchema = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000 })),
    /** Value of `next` in the previous response. */
    after: Type.Optional(Type.String()),
    search: Type.Optional(Type.String({ maxLength: 128 })),
  },
  { additionalProperties: false },
);
const security = [{ operatorKey: [] }];

type OperatorParts = { guard: RestGuard; operator: Operator };

/** `/api/admin/nodes`, `/rooms` and their actions: all nodes as one, protected by the operator's key. */
export function registerOperatorRoutes(server: RestServer, parts: OperatorParts): void {
  registerNodes(server, parts);
  registerRooms(server, parts);
  registerPeers(server, parts);
}

function registerNodes(server: RestServer, { guard, operator }: OperatorParts): void {
  server.get(
    '/api/admin/nodes',
    {
      onRequest: guard.operator,
      schema: {
        summary: 'All living nodes, with their load; nodes that do not answer, by id only',
        security,
        response: { 200: NodeListSchema },
      },
    },
    () => operator.nodes(),
  );
  server.get(
    '/api/admin/nodes/self',
    {
      onRequest: guard.operator,
      schema: {
        summary: 'The node that answers this request, even while Redis is disconnected',
        security,
        response: { 200: NodeDescriptionSchema },
      },
    },
    () => operator.self(),
  );
  server.post(
    '/api/admin/nodes/:node/drain',
    {
      onRequest: guard.operator,
      schema: {
        summary:
          'Drain a node and the others of its group: each ends when its clients have left, or at the deadline',
        security,
        params: Type.Object({ node: Type.String() }),
        body: DrainSchema,
        response: { 202: DrainingSchema },
      },
    },
    async (request, reply) => {
      const by = `POST /api/admin/nodes/…/drain from ${request.ip}`;
      const leftMs = await operator.drain(request.params.node, request.body.deadline_ms, by);
      return reply.code(202).send({ deadline_ms: leftMs });
    },
  );
}

function registerRooms(server: RestServer, { guard, operator }: OperatorParts): void {
  server.get(
    '/api/admin/rooms',
    {
      onRequest: guard.operator,
      schema: {
        summary: 'The rooms of all nodes, by account and name',
        security,
        querystring: RoomListQuerySchema,
        response: { 200: RoomListSchema },
      },
    },
    async (request) => {
      const { limit = 100, search = '', after } = request.query;
      return operator.rooms({ limit, search, ...(after && { after: requireKey(after) }) });
    },
  );
  server.get(
    '/api/admin/rooms/:account_id/:room',
    {
      onRequest: guard.operator,
      schema: {
        summary: 'A room and its peers on all nodes',
        security,
        params: Type.Object({ account_id: AccountId, room: Type.String() }),
        response: { 200: RoomDescriptionSchema },
      },
    },
    (request) => operator.room(request.params),
  );
}

function registerPeers(server: RestServer, { guard, operator }: OperatorParts): void {
  server.post(
    '/api/admin/accounts/:id/peers/:peer/kick',
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Close a peer on any node, and remove its kept place; it may come back',
        security,
        params: Type.Object({ id: AccountId, peer: Type.String() }),
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await operator.kick(request.params.id, request.params.peer);
      return reply.code(204).send(null);
    },
  );
  server.post(
    '/api/admin/accounts/:id/peers/:peer/mute',
    {
      onRequest: guard.operator,
      schema: {
        summary: 'Mute or unmute a peer on any node, connected or away, as if it had asked for it',
        security,
        params: Type.Object({ id: AccountId, peer: Type.String() }),
        body: Type.Object({ muted: Type.Boolean() }, { additionalProperties: false }),
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { id, peer } = request.params;
      await operator.mute(id, peer, request.body.muted);
      return reply.code(204).send(null);
    },
  );
}

/** @throws {PartylineError} `bad_request` */
function requireKey(after: string) {
  const key = parseKey(after);
  if (key) return key;
  throw new PartylineError(
    'bad_request',
    '"after" must be the "next" value of an earlier response.',
  );
}
