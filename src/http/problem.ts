import { randomUUID } from 'node:crypto';
import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { logFault } from '../protocol/log-fault.ts';
import type { ErrorCode } from '../protocol/close-codes.ts';
import { notFound, PartylineError } from '../protocol/errors.ts';

/** Body of an error response (RFC 9457). */
export const ProblemSchema = Type.Object(
  {
    type: Type.String(),
    title: Type.String(),
    status: Type.Integer(),
    detail: Type.String(),
    code: Type.String(),
    request_id: Type.String(),
  },
  { description: 'Error, as application/problem+json' },
);
type Problem = Static<typeof ProblemSchema>;

/** Answers faults of routes, and requests that have no route, with {@link sendProblem}. */
export function registerProblems(app: FastifyInstance): void {
  app.setErrorHandler(sendProblem);
  app.setNotFoundHandler(() => {
    // Reaches the error handler.
    throw notFound();
  });
}

/** Returns the code with which {@link sendProblem} answers a fault. */
export const codeOfFault = (fault: unknown): ErrorCode =>
  (refusalOf(fault) ?? PartylineError.from(fault)).code;

/** Default from which `Retry-After` of 429 and 503 is made, ms: a media worker that died is replaced within that time. */
const RETRY_AFTER_MS = 1000;

/**
 * Answers a fault over REST as RFC 9457 `application/problem+json`; faults that are not the client's are
 * logged, and their text is not shown.
 */
export function sendProblem(fault: unknown, request: FastifyRequest, reply: FastifyReply) {
  // `logFault` returns the error to answer with.
  const error = refusalOf(fault) ?? logFault(request.log, fault, 'request failed');
  if (error.code === 'unauthorized') reply.header('www-authenticate', 'Bearer');
  if (error.code === 'upgrade_required') {
    reply.header('upgrade', 'websocket').header('connection', 'upgrade');
  }
  const { title, status } = error.kind;
  const mayRetry = status === 429 || status === 503;
  const retryAfterMs = error.retryAfterMs ?? (mayRetry ? RETRY_AFTER_MS : undefined);
  if (retryAfterMs !== undefined) reply.header('retry-after', Math.ceil(retryAfterMs / 1000));
  const problem: Problem = {
    type: `urn:partyline:error:${error.code}`,
    title,
    status,
    detail: error.message,
    code: error.code,
    request_id: request.id,
  };
  return reply.code(status).type('application/problem+json').send(problem);
}

/** Status and text for requests that Node's parser rejects, by error code; all other codes get 400. */
const UNPARSED: Record<string, { status: number; detail: string }> = {
  ERR_HTTP_REQUEST_TIMEOUT: { status: 408, detail: 'The request took too long to arrive.' },
  HPE_HEADER_OVERFLOW: { status: 431, detail: 'The headers are too long: at most 16 KiB.' },
};
const MALFORMED = { status: 400, detail: 'The request is not valid HTTP/1.1.' };

/** Undocumented property of Node's sockets that is used here: the response that is being sent. A test looks for its effect. */
type Internals = { _httpMessage?: ServerResponse | null };

/**
 * Closes the connection of a request that Node's parser rejects, which no route sees. Answers first, unless a response on this
 * connection has begun, of which the answer would seem a part; a request that is still being handled gets it as its own.
 */
export function refuseUnparsed(fault: Error & { code?: string }, connection: Socket): void {
  const { _httpMessage: response } = connection as Internals;
  if (connection.writable && !response?.headersSent) {
    const { status, detail } = UNPARSED[fault.code ?? ''] ?? MALFORMED;
    const { headers, body } = unroutedAnswer(status, detail);
    const head = [
      `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      'Connection: close',
    ];
    connection.write([...head, '', body].join('\r\n'));
  }
  connection.destroy(fault);
}

/** Returns the answer to a request that no route sees. */
export function unroutedAnswer(status: number, detail: string) {
  const problem: Problem = {
    type: 'urn:partyline:error:bad_request',
    title: STATUS_CODES[status] ?? '',
    status,
    detail,
    code: 'bad_request',
    request_id: randomUUID(),
  };
  const body = JSON.stringify(problem);
  const headers = {
    'Content-Type': 'application/problem+json',
    'Content-Length': Buffer.byteLength(body),
  };
  return { headers, body };
}

/**
 * Returns the error for a request that Fastify itself rejects, such as a body that is not JSON; undefined for other faults. Fastify's
 * status is then below 500; 413 and 415 have codes of their own, all others become `bad_request`.
 */
function refusalOf(fault: unknown): PartylineError | undefined {
  if (fault instanceof Error && 'statusCode' in fault && Number(fault.statusCode) < 500) {
    return new PartylineError(codeOf(Number(fault.statusCode)), fault.message, { cause: fault });
  }
  return undefined;
}

function codeOf(status: number): ErrorCode {
  if (status === 413) return 'message_too_big';
  return status === 415 ? 'unsupported_media_type' : 'bad_request';
}
