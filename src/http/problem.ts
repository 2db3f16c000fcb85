import type { FastifyInstance } from 'fastify';
import { PartylineError } from '../protocol/errors.ts';

/** Answers every fault over REST as RFC 9457 `application/problem+json`; what is not the client's is logged, and not shown. */
export function registerProblems(app: FastifyInstance): void {
  app.setErrorHandler((fault, request, reply) => {
    const error = toPartylineError(fault);
    if (error.code === 'internal_error') request.log.error({ err: fault }, 'request failed');
    if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer');
    if (error.retryAfterMs !== undefined) {
      reply.header('retry-after', Math.ceil(error.retryAfterMs / 1000));
    }
    const { title, status } = error.kind;
    return reply
      .code(status)
      .type('application/problem+json')
      .send({
        type: `urn:partyline:error:${error.code}`,
        title,
        status,
        detail: error.message,
        code: error.code,
        request_id: request.id,
      });
  });
  app.setNotFoundHandler(() => {
    throw new PartylineError('not_found', 'There is nothing at this address.');
  });
}

/** Fastify's own refusals (a body that is not JSON, say) carry a status below 500. */
function toPartylineError(fault: unknown): PartylineError {
  if (fault instanceof Error && 'statusCode' in fault && Number(fault.statusCode) < 500) {
    return new PartylineError('bad_request', fault.message, { cause: fault });
  }
  return PartylineError.from(fault);
}
