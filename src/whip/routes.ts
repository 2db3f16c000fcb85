import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { ErrorCode } from '../protocol/close-codes.ts';
import { PartylineError } from '../protocol/errors.ts';
import { asRestServer, type RestServer } from '../http/api-docs.ts';
import { codeOfFault } from '../http/problem.ts';
import type { WhipGuard } from './guard.ts';
import { allowOrigins, describeMethods, FRAGMENT, linksTo, SDP } from './headers.ts';
import type { WhipKind } from './offer.ts';
import type { SessionName } from './whip-service.ts';
import type { WhipSessions } from './whip-sessions.ts';

const ENDPOINT_METHODS = 'POST, GET, HEAD, OPTIONS';
const SESSION_METHODS = 'PATCH, DELETE, GET, HEAD, OPTIONS';
const OTHER_METHODS = {
  endpoint: ['PUT', 'PATCH', 'DELETE'],
  session: ['PUT', 'POST'],
};

const SUMMARIES = {
  whip: { open: 'WHIP: speak into a room', session: 'a session of WHIP' },
  whep: { open: 'WHEP: hear a room', session: 'a session of WHEP' },
} as const;

const QuerySchema = Type.Object({
  peer: Type.Optional(
    Type.String({ description: 'Required with an API key; a token contains it' }),
  ),
  from: Type.Optional(Type.String({ description: 'WHEP: the only peer to hear' })),
});
const RoomSchema = Type.Object({ room: Type.String() });
const IdSchema = Type.Object({ id: Type.String() });
const security = [{ token: [] }, { apiKey: [] }];

const UNREADABLE = `The body must be ${SDP} or ${FRAGMENT}.`;

type Parts = {
  guard: WhipGuard;
  sessions: WhipSessions;
  /** Called once for each POST that fails, with the code of the answer. */
  onRefused: (code: ErrorCode) => void;
};

/** Routes of WHIP (RFC 9725) and WHEP, by which standard clients speak into rooms and hear them (docs/protocol.md §8). */
export async function registerWhipRoutes(server: RestServer, parts: Parts): Promise<void> {
  await server.register(async (scope) => {
    // A body that is not SDP is refused unread.
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser([SDP, FRAGMENT], { parseAs: 'string' }, (_request, body, done) => {
      done(null, body);
    });
    // These need no body, whatever type their client names.
    scope.addContentTypeParser('*', ({ method }, _body, done) => {
      const needsNone = method === 'DELETE' || method === 'OPTIONS';
      done(needsNone ? null : new PartylineError('unsupported_media_type', UNREADABLE));
    });
    scope.addHook('onRequest', (_request, reply, done) => {
      allowOrigins(reply);
      reply.header('cache-control', 'no-store');
      done();
    });
    const rest = asRestServer(scope);
    for (const kind of ['whip', 'whep'] as const) {
      registerEndpoint(rest, kind, parts);
      registerSession(rest, kind, parts);
    }
  });
}

/** `/whip/{room}` and `/whep/{room}`. */
function registerEndpoint(
  server: RestServer,
  kind: WhipKind,
  { guard, sessions, onRefused }: Parts,
): void {
  const url = `/${kind}/:room`;
  const schema = {
    summary: SUMMARIES[kind].open,
    security,
    consumes: [SDP],
    params: RoomSchema,
    querystring: QuerySchema,
    body: Type.String({ description: 'An SDP offer' }),
    response: { 201: textOf(SDP, 'The answer; Location is the address of the session') },
  };
  const opening = {
    schema,
    onRequest: guard.opening,
    preValidation: requireContentType(SDP),
    onError: (_request: unknown, _reply: unknown, fault: Error, done: () => void) => {
      onRefused(codeOfFault(fault));
      done();
    },
  };
  server.post(url, opening, async (request, reply) => {
    const { credentials, changesBefore } = guard.knownOf(request);
    const { query, params, body } = request;
    const peer = peerOf(credentials.grant?.peer, query.peer);
    const from = kind === 'whep' ? query.from : undefined;
    const asked = { kind, credentials, room: params.room, peer, from, sdp: body };
    const { id, etag, sdp, iceServers } = await sessions.open(asked, changesBefore);
    const links = linksTo(iceServers);
    if (links.length > 0) reply.header('link', links);
    return reply
      .code(201)
      .headers({ location: `/${kind}/sessions/${id}`, etag, 'accept-patch': FRAGMENT })
      .type(SDP)
      .send(sdp);
  });
  // Players detect WHEP by this header.
  const content = kind === 'whep' ? { 'content-type': SDP } : {};
  server.get(url, { schema: { hide: true, params: RoomSchema } }, (_request, reply) =>
    reply.headers({ 'accept-post': SDP, ...content }).send(''),
  );
  registerOthers(server, url, ENDPOINT_METHODS, OTHER_METHODS.endpoint, { 'accept-post': SDP });
}

/** `/whip/sessions/{id}` and `/whep/sessions/{id}`. */
function registerSession(server: RestServer, kind: WhipKind, { guard, sessions }: Parts): void {
  const url = `/${kind}/sessions/:id`;
  const common = { security, params: IdSchema };
  const onRequest = guard.asking;
  const nameOf = (request: FastifyRequest, id: string): SessionName => {
    const { account, grant } = guard.knownOf(request).credentials;
    return { kind, id, owner: { accountId: account.id, ...(grant && { peer: grant.peer }) } };
  };
  const patchSchema = {
    ...common,
    summary: `Add candidates to ${SUMMARIES[kind].session}, or restart its ICE`,
    consumes: [FRAGMENT],
    body: Type.String({ description: 'A fragment of SDP (RFC 8840)' }),
    response: {
      200: textOf(FRAGMENT, 'ICE was restarted'),
      204: { description: 'Candidates were accepted', type: 'null' },
    },
  };
  const preValidation = requireContentType(FRAGMENT);
  const patching = { schema: patchSchema, onRequest, preValidation };
  server.patch(url, patching, async (request, reply) => {
    const name = nameOf(request, request.params.id);
    const patched = await sessions.patch(name, request.headers['if-match'], request.body);
    if (!patched) return reply.code(204).send();
    return reply.header('etag', patched.etag).type(FRAGMENT).send(patched.body);
  });
  const endSchema = {
    ...common,
    summary: `End ${SUMMARIES[kind].session}`,
    response: { 200: { description: 'It has ended', type: 'null' } },
  };
  server.delete(url, { schema: endSchema, onRequest }, async (request, reply) => {
    await sessions.end(nameOf(request, request.params.id));
    return reply.send('');
  });
  server.get(
    url,
    { schema: { hide: true, params: IdSchema }, onRequest },
    async (request, reply) => {
      await sessions.look(nameOf(request, request.params.id));
      return reply.send('');
    },
  );
  const accepted = { 'accept-patch': FRAGMENT };
  registerOthers(server, url, SESSION_METHODS, OTHER_METHODS.session, accepted);
}

/** Registers OPTIONS, which needs no authorization, and refuses other methods. */
function registerOthers(
  server: RestServer,
  url: string,
  methods: string,
  refused: string[],
  headers: Record<string, string>,
): void {
  server.options(url, { schema: { hide: true } }, (_request, reply) => {
    describeMethods(reply, methods);
    return reply.headers(headers).send('');
  });
  server.route({
    method: refused,
    url,
    schema: { hide: true },
    // Before a body is read.
    onRequest: (_request, reply, done) => {
      reply.header('allow', methods);
      done(new PartylineError('method_not_allowed', `Only ${methods} are allowed here.`));
    },
    handler: () => {},
  });
}

const textOf = (type: string, description: string) => ({
  description,
  content: { [type]: { schema: Type.String() } },
});

/** preValidation hook: refuses a body of another content type. */
const requireContentType =
  (wanted: string) =>
  (request: FastifyRequest, _reply: FastifyReply, done: (fault?: Error) => void) => {
    const [type = ''] = (request.headers['content-type'] ?? '').split(';');
    const isRight = type.trim().toLowerCase() === wanted;
    const fault = new PartylineError('unsupported_media_type', `The body must be ${wanted}.`);
    done(isRight ? undefined : fault);
  };

/** @throws {PartylineError} `bad_request`, `forbidden` */
function peerOf(granted: string | undefined, asked: string | undefined): string {
  const peer = granted ?? asked;
  if (!peer) throw new PartylineError('bad_request', '"peer" is missing, as there is no token.');
  if (asked !== undefined && asked !== peer) {
    throw new PartylineError('forbidden', 'The token is for another peer.');
  }
  return peer;
}
