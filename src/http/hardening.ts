import type { FastifyInstance } from 'fastify';
import { notFound } from '../protocol/errors.ts';
import { spellsFixedParts } from './fixed-path.ts';

/**
 * Content security policy of pages and files. Opus is decoded as WebAssembly in a worker. `'self'` covers the page's
 * WebSocket, too (in Safari since version 16). The QR code of an invitation is a data URL.
 */
const PAGE_POLICY =
  "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; object-src 'none'; frame-ancestors 'none'";
/** Content security policy of Swagger UI, whose markup contains styles and images. */
const DOCS_POLICY =
  "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'; form-action 'none'; object-src 'none'; frame-ancestors 'none'";
const DOCS = '/api/docs';

/**
 * Refuses URLs whose fixed parts are percent-encoded, which no client writes, and adds security headers for browsers to every
 * response. Responses of the API may contain keys and tokens: no cache may store them.
 */
export function registerHardening(server: FastifyInstance): void {
  server.addHook('onRequest', (request, _reply, done) => {
    const { url: route } = request.routeOptions;
    const isPlain = route === undefined || spellsFixedParts(request.url, route);
    done(isPlain ? undefined : notFound());
  });
  server.addHook('onSend', (request, reply, _payload, done) => {
    const isDocs = request.url.startsWith(DOCS);
    reply.header('content-security-policy', isDocs ? DOCS_POLICY : PAGE_POLICY);
    reply.header('x-content-type-options', 'nosniff');
    reply.header('referrer-policy', 'no-referrer');
    reply.header('x-frame-options', 'DENY');
    if (request.url.startsWith('/api/') && !isDocs) reply.header('cache-control', 'no-store');
    done();
  });
}
