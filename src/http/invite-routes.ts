import fastifyCors from '@fastify/cors';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type Authenticator, requireActive } from '../accounts/authenticator.ts';
import {
  guestName,
  type Invites,
  InviteRequestSchema,
  RedemptionSchema,
} from '../accounts/invites.ts';
import type { RateLimits } from '../accounts/rate-limits.ts';
import type { Tokens } from '../accounts/tokens.ts';
import { PartylineError } from '../protocol/errors.ts';
import { checkName } from '../protocol/names.ts';
import { asRestServer, type RestServer } from './api-docs.ts';
import type { RestGuard } from './rest.ts';

/** Body sent by a guest without credentials: an invitation and a name. */
const REDEMPTION_LIMIT_BYTES = 8192;

const InviteSchema = Type.Object({
  invite: Type.String(),
  url: Type.String(),
  expires_at: Type.String(),
});
const GuestSchema = Type.Object({
  token: Type.String(),
  peer: Type.String(),
  room: Type.String(),
  expires_at: Type.String(),
});

type Parts = {
  guard: RestGuard;
  authenticator: Authenticator;
  limits: RateLimits;
  invites: Invites;
  tokens: Tokens;
  /** Called for each request whose invitation is valid. */
  onKnown: (request: FastifyRequest, accountId: number) => void;
};

/**
 * Invitations (docs/protocol.md, "Invitations"): `POST /api/invites` with an API key, `POST
 * /api/invites/redeem` with nothing but the invitation, from any origin.
 */
export async function registerInviteRoutes(server: RestServer, parts: Parts): Promise<void> {
  const { guard, authenticator, limits, invites, tokens, onKnown } = parts;
  const schema = {
    summary:
      'Create an invitation into a room: a link that can be exchanged for tokens until it expires',
    security: [{ apiKey: [] }],
    body: InviteRequestSchema,
    response: { 201: InviteSchema },
  };
  server.post('/api/invites', { schema, onRequest: guard.client }, async (request, reply) => {
    const credentials = guard.credentialsOf(request);
    requireActive(credentials);
    checkName(request.body.room, 'room', 'bad_request');
    const owner = { accountId: credentials.account.id, keyId: credentials.keyId };
    const { invite, expires_at } = await invites.issue(owner, request.body);
    const url = `${request.protocol}://${request.host}/#${new URLSearchParams({ invite }).toString()}`;
    return reply.code(201).send({ invite, url, expires_at });
  });

  const redeem = async (scope: FastifyInstance) => {
    await scope.register(fastifyCors, { origin: '*', methods: ['POST'], maxAge: 86_400 });
    const redemption = {
      summary: 'Exchange an invitation for a token and a unique name',
      body: RedemptionSchema,
      response: { 200: GuestSchema },
    };
    const options = { schema: redemption, bodyLimit: REDEMPTION_LIMIT_BYTES };
    asRestServer(scope).post('', options, async (request) => {
      const { invite, name } = request.body;
      const peer = guestName(name);
      limits.checkSecret(invite);
      const invitation = await authenticator.byInvite(invite, request.ip).catch(asNotFound);
      await limits.countRedemption(invitation.owner.accountId, invite);
      onKnown(request, invitation.owner.accountId);
      requireActive(invitation);
      const { owner, room, publish, ttlSeconds } = invitation;
      const grant = { peer, rooms: [room], publish, ttl_seconds: ttlSeconds };
      return { ...(await tokens.issue(owner, grant)), peer, room };
    });
  };
  // The prefix bounds the preflight requests that the plugin answers.
  await server.register(redeem, { prefix: '/api/invites/redeem' });
}

/** Reports an invalid invitation as a missing resource, not as a failed login. */
function asNotFound(fault: unknown): never {
  if (PartylineError.from(fault).code !== 'unauthorized') throw fault;
  throw new PartylineError('not_found', 'The invitation is not valid, or has expired.', {
    cause: fault,
  });
}
