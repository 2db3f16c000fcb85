import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server as TlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import fastifyStatic from '@fastify/static';
import fastifyWebsocket from '@fastify/websocket';
import Fastify, {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import type { Settings } from '../../config/settings.ts';
import type { Timings } from '../../config/timings.ts';
import { listenAddressOf, nameFaults } from '../listen-address.ts';
import { logOptions } from '../log.ts';
import type { Slices } from '../slices.ts';
import { refuseUnparsed, sendProblem } from './problem.ts';
import { parseQueryString } from './query-string.ts';
import { watchHandshakes } from './tls-handshakes.ts';
import { upgradeInSlices } from './upgrade-slices.ts';

/**
 * Maximum length of a message that ws accepts; it closes with 1009 for a longer one. A message between `MAX_MESSAGE_BYTES` (64 KiB) and
 * this length is refused by the session, which first sends an `error`. An unfinished message may take as much memory, which no
 * budget counts.
 */
const MAX_PAYLOAD_BYTES = 128 * 1024;
/** Maximum number of fragments of a message. ws keeps each, and with it the whole chunk in which it came; it closes with 1008 beyond that. */
const MAX_FRAGMENTS = 1024;
/**
 * Maximum number of pongs that wait to be sent to a client; with more it is disconnected. `control-limit.ts` admits 1000 pings, and one
 * turn of 64 KiB may contain 10,900 more (empty ones, of 6 bytes). With the longest payload, 125 bytes, these pongs take 1.5 MB.
 */
const MAX_PENDING_PONGS = 12_000;
/**
 * Maximum number of chunks of an unfinished message: 1024 chunks are 64 KiB in segments of 64 bytes. Each takes up to 1 KB of memory.
 * ws joins them with `Array.shift`, which moves the whole array if there are more than about 8000: a message of 64 KiB in TLS
 * records of one byte blocked the event loop for seconds. ws closes with 1008 beyond the limit.
 */
const MAX_BUFFERED_CHUNKS = 1024;
const webSocketOptions = {
  maxPayload: MAX_PAYLOAD_BYTES,
  perMessageDeflate: false,
  // Time that a client may take to answer a close before its socket is cut, ms.
  closeTimeout: 3000,
  maxPendingAutoPongs: MAX_PENDING_PONGS,
  maxFragments: MAX_FRAGMENTS,
  maxBufferedChunks: MAX_BUFFERED_CHUNKS,
};

/** Interval at which Node looks for requests that take too long to arrive, ms. */
const CHECK_EVERY_MS = 1000;

/** Maximum body of a request: the longest asks for a token for 100 rooms; an offer of WHIP has a few KB. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** Maximum length of a parameter in a path: a name of 128 characters, each percent-encoded as four bytes. */
const MAX_PARAM_LENGTH = 128 * 4 * 3;

/** Paths of files whose names contain a hash of their contents, and of the source maps of these files. */
const HASHED_FILE = /\/assets\/[^/]+-[\w-]{8}\.\w+(\.map)?$/;
const KEPT_FOR_A_YEAR = 'public, max-age=31536000, immutable';

/**
 * Creates the server without opening a port. Log lines contain the path without the query, because the query of `/ws` contains the
 * API key. Fastify's own request log is off: `visitors.ts`, which knows the client, logs requests.
 */
export async function newServer(
  settings: Settings,
  timings: Timings['http'],
  name?: string,
): Promise<FastifyInstance> {
  const { TLS_CERT: cert, TLS_KEY: key, TRUST_PROXY: trustProxy } = settings;
  const options = {
    trustProxy: trustProxy === '' ? false : trustProxy,
    logger: {
      ...logOptions(settings, name),
      serializers: {
        req: ({ method, url, ip }: FastifyRequest) => ({ method, path: url.split('?')[0], ip }),
      },
    },
    logController: new LogController({ disableRequestLogging: true }),
    requestTimeout: timings.requestMs,
    connectionTimeout: timings.idleMs,
    bodyLimit: BODY_LIMIT_BYTES,
    forceCloseConnections: true,
    // Unique over all processes and starts.
    genReqId: () => randomUUID(),
    // Malformed URLs do not reach the error handler, so they are answered here.
    frameworkErrors: (fault: unknown, request: FastifyRequest, reply: FastifyReply) =>
      void sendProblem(fault, request, reply),
    clientErrorHandler: refuseUnparsed,
    // Applies to upgrades, too.
    rewriteUrl: ({ url }: IncomingMessage) => originForm(url ?? ''),
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH, querystringParser: parseQueryString },
  };
  const limits = {
    headersTimeout: timings.requestMs,
    // pipelining.ts checks the header instead.
    requireHostHeader: false,
    connectionsCheckingInterval: Math.min(timings.requestMs, CHECK_EVERY_MS),
    // Clients of HTTP/2 offer `h2c`, which a server may ignore (RFC 9110 §7.8). Node before 24.9
    // ignores this option.
    shouldUpgradeCallback: ({ headers }: IncomingMessage) =>
      headers.upgrade?.toLowerCase() === 'websocket',
  };
  if (cert === '') return Fastify({ ...options, http: limits });
  const tls = { ...(await readCertificate(cert, key)), handshakeTimeout: timings.requestMs };
  return Fastify({ ...options, https: { ...tls, ...limits } });
}

/** Returns the target of a request without the scheme and the host, which proxies put before the path (RFC 9112 §3.2.2). */
function originForm(target: string): string {
  const path = target.replace(/^https?:\/\/[^/?#]+/i, '');
  return path.startsWith('?') || path === '' ? `/${path}` : path;
}

async function readCertificate(cert: string, key: string) {
  try {
    return { cert: await readFile(cert), key: await readFile(key) };
  } catch (cause) {
    throw new Error('TLS_CERT or TLS_KEY cannot be read', { cause });
  }
}

/**
 * Lets a server listen at HOST and PORT.
 * @param isShared true if other processes listen on the same port
 * @throws {Error} naming HOST and PORT if they cannot be used; as it is, if it is a fault of a plugin
 */
export async function startListening(
  server: FastifyInstance,
  { HOST, PORT: port }: Pick<Settings, 'HOST' | 'PORT'>,
  isShared: boolean,
): Promise<void> {
  const address = { host: await listenAddressOf(HOST), port, reusePort: isShared };
  await server.ready();
  await nameFaults({ HOST, PORT: port }, server.listen(address));
}

/** Returns the URL at which a browser on this machine can open the gateway's page. */
export function urlOf(server: FastifyInstance, { HOST: host, TLS_CERT: cert }: Settings): string {
  const scheme = cert === '' ? 'http' : 'https';
  const { port } = server.server.address() as AddressInfo;
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `${scheme}://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/**
 * Registers WebSockets and the pages, and does upgrades in slices.
 * @param preClose called before the server closes; ends all sessions
 * @param slices scheduler that shares the event loop between clients
 */
export async function registerPlugins(
  server: FastifyInstance,
  preClose: () => void,
  slices: Slices,
): Promise<void> {
  const endHandshakes =
    server.server instanceof TlsServer ? watchHandshakes(server.server) : () => {};
  let isClosing = false;
  await server.register(fastifyWebsocket, {
    options: webSocketOptions,
    preClose: () => {
      isClosing = true;
      endHandshakes();
      preClose();
    },
  });
  upgradeInSlices(server.server, slices, () => isClosing);
  await server.register(fastifyStatic, {
    root: fileURLToPath(new URL('../../build/web', import.meta.url)),
    // An open page may load these files hours later from a newer gateway, which no longer has
    // them, so the browser must keep them in its cache.
    setHeaders: (reply, path) => {
      if (HASHED_FILE.test(path)) reply.header('cache-control', KEPT_FOR_A_YEAR);
    },
  });
  // The files of the page are relative to /admin/. So is the redirection to `admin`: a proxy may
  // serve all of it below a path.
  server.get('/admin', (_request, reply) => reply.redirect('admin/'));
}
