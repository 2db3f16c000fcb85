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
import { logOptions } from '../log.ts';
import type { Slices } from '../slices.ts';
import { refuseUnparsed, sendProblem } from './problem.ts';
import { parseQueryString } from './query-string.ts';
import { watchHandshakes } from './tls-handshakes.ts';
import { upgradeInSlices } from './upgrade-slices.ts';

/**
 * Length beyond which ws itself closes with 1009; below it the session closes, with an `error` message. Each connection may hold as
 * much in a message that it never ends, which no budget counts.
 */
const MAX_PAYLOAD_BYTES = 128 * 1024;
/** Maximum number of fragments of a message: ws holds each, with the chunk in which it came. ws closes with 1008. */
const MAX_FRAGMENTS = 1024;
/**
 * Maximum number of answers to pings that wait for a client, which is then cut off: those of 1000 pings (control-limit.ts),
 * and of a read of 64 KB of the shortest. The longest take 1.5 MB.
 */
const MAX_PENDING_PONGS = 12_000;
/**
 * Maximum number of chunks that the message being received may lie in: 64 KiB in TCP segments of 64 bytes. Each takes up to 1 KB of
 * memory. ws joins them by `Array.shift`, which moves the whole array once there are more than about 8000: a message of 64 KiB in
 * TLS records of one byte blocked the event loop for seconds. ws closes with 1008.
 */
const MAX_BUFFERED_CHUNKS = 1024;
/** `closeTimeout`: how long a client may take to answer a close before its socket is cut, in ms. */
const webSocketOptions = {
  maxPayload: MAX_PAYLOAD_BYTES,
  perMessageDeflate: false,
  closeTimeout: 3000,
  maxPendingAutoPongs: MAX_PENDING_PONGS,
  maxFragments: MAX_FRAGMENTS,
  maxBufferedChunks: MAX_BUFFERED_CHUNKS,
};

/** Interval at which requests are looked for that take too long to arrive, ms. */
const CHECK_EVERY_MS = 1000;

/** The longest body is a token's request for 100 rooms; every other one is a hundredth of it. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** A name of 128 characters, each percent-encoded as four bytes. */
const MAX_PARAM_LENGTH = 128 * 4 * 3;

/** Paths of files whose names have a hash of their contents, and of their source maps. */
const HASHED_FILE = /\/assets\/[^/]+-[\w-]{8}\.\w+(\.map)?$/;
const KEPT_FOR_A_YEAR = 'public, max-age=31536000, immutable';

/**
 * Creates the server without opening a port. Requests are logged by path only, because the query of `/ws`
 * holds the API key, and by the code that knows their client (visitors.ts).
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
    // Malformed URLs do not reach the error handler.
    frameworkErrors: (fault: unknown, request: FastifyRequest, reply: FastifyReply) =>
      void sendProblem(fault, request, reply),
    clientErrorHandler: refuseUnparsed,
    // Upgrades go the same way.
    rewriteUrl: ({ url }: IncomingMessage) => originForm(url ?? ''),
    routerOptions: { maxParamLength: MAX_PARAM_LENGTH, querystringParser: parseQueryString },
  };
  const limits = {
    headersTimeout: timings.requestMs,
    // pipelining.ts checks it.
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

/** Returns a request's target without the scheme and host that a client may write (RFC 9112 §3.2.2), and proxies do. */
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

/** URL at which a person on this machine can open it. */
export function urlOf(server: FastifyInstance, { HOST: host, TLS_CERT: cert }: Settings): string {
  const scheme = cert === '' ? 'http' : 'https';
  const { port } = server.server.address() as AddressInfo;
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host;
  return `${scheme}://${name.includes(':') ? `[${name}]` : name}:${port}`;
}

/**
 * Registers WebSockets, the pages, and the order in which the work of connections is done.
 * @param preClose ends all sessions, before the server closes
 * @param slices scheduler of upgrades
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
    // The files of /admin are relative to /admin/.
    redirect: true,
    // A page loads files of its audio again hours later, when the gateway may be another version
    // that lacks them.
    setHeaders: (reply, path) => {
      if (HASHED_FILE.test(path)) reply.header('cache-control', KEPT_FOR_A_YEAR);
    },
  });
}
