import type { FastifyReply } from 'fastify';
import type { IceServer } from '../protocol/media-types.ts';

export const SDP = 'application/sdp';
export const FRAGMENT = 'application/trickle-ice-sdpfrag';

/** Time for which a browser may cache the answer to a preflight request, s. */
const PREFLIGHT_MAX_AGE_S = 86_400;

/** Lets pages of any origin read the answer: their rights depend on the token or key that they send. */
export function allowOrigins(reply: FastifyReply): void {
  reply.header('access-control-allow-origin', '*');
  const exposed = 'Location, ETag, Link, Accept-Patch, Retry-After';
  reply.header('access-control-expose-headers', exposed);
}

/** Answers OPTIONS requests, including a browser's preflight requests (CORS). */
export function describeMethods(reply: FastifyReply, methods: string): void {
  reply.header('allow', methods);
  reply.header('access-control-allow-methods', methods);
  reply.header('access-control-allow-headers', 'Authorization, Content-Type, If-Match');
  reply.header('access-control-max-age', PREFLIGHT_MAX_AGE_S);
}

/** Returns `Link` values of TURN servers, one for each address (RFC 9725 §4.6, RFC 8288 §3). */
export const linksTo = (servers: IceServer[]): string[] =>
  servers.flatMap(({ urls, username, credential }) =>
    urls.map((url) => {
      const parameters = [
        ['rel', 'ice-server'],
        ['username', username],
        ['credential', credential],
        ['credential-type', 'password'],
      ];
      return [`<${url}>`, ...parameters.map(([name, value]) => `${name}="${value}"`)].join('; ');
    }),
  );
