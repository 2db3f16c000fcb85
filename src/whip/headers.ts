import type { FastifyReply } from 'fastify';
import type { IceServer } from '../protocol/media-types.ts';

export const SDP = 'application/sdp';
export const FRAGMENT = 'application/trickle-ice-sdpfrag';

/** How long a browser may remember that it is allowed to ask, s. */
const PREFLIGHT_MAX_AGE_S = 86_400;

/** Lets pages of any origin read the answer: what they may do depends on the token or key that they send. */
export function allowOrigins(reply: FastifyReply): void {
  reply.header('access-control-allow-origin', '*');
  const exposed = 'Location, ETag, Link, Accept-Patch, Retry-After';
  reply.header('access-control-expose-headers', exposed);
}

/** Answers a question of what may be asked, also that of a browser before it does (CORS). */
export function describeMethods(reply: FastifyReply, methods: string): void {
  reply.header('allow', methods);
  reply.header('access-control-allow-methods', methods);
  reply.header('access-control-allow-headers', 'Authorization, Content-Type, If-Match');
  reply.header('access-control-max-age', PREFLIGHT_MAX_AGE_S);
}

/** `Link` values of TURN servers, one for each address (RFC 9725 §4.6, RFC 8288 §3). */
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
