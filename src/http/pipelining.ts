import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/**
 * Number of requests of a connection without an answer beyond which it is closed. Browsers and proxies send a request after the
 * answer to the one before; 64 KB of a connection, which Node reads at once, have thousands.
 */
const MAX_UNANSWERED = 16;

/** Undocumented property of Node's sockets that is used here; a test counts the requests that are read. */
type Internals = { parser?: { onIncoming: () => number } | null };

/** Returned to Node's parser, makes it read nothing behind the head of a request, as behind that of an upgrade. */
const STOP = 2;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Closes connections that send many requests without waiting for answers, because Node has all of them handled at once. Requests that
 * Node would answer by itself count, too.
 * @param server server whose last `request` listener handles requests, and that has no `requireHostHeader`: that is checked here
 * @param onClosed called with the address of such a connection
 */
export function limitPipelining(
  server: Pick<Server, 'listeners' | 'off' | 'on'>,
  onClosed: (address: string) => void,
): void {
  const handle = server.listeners('request').at(-1) as RequestListener;
  /** Number of requests without an answer, by connection. */
  const unanswered = new WeakMap<Socket, number>();
  const add = (socket: Socket, more: number) =>
    unanswered.set(socket, (unanswered.get(socket) ?? 0) + more);
  const limit =
    (answer: Answer): Answer =>
    (request, response) => {
      const { socket } = request;
      if ((unanswered.get(socket) ?? 0) >= MAX_UNANSWERED) {
        // Otherwise it would read the thousands of others that have come at once, which takes a tenth of a second.
        const { parser } = socket as Internals;
        if (parser) parser.onIncoming = () => STOP;
        onClosed(socket.remoteAddress ?? '');
        socket.destroy();
        return;
      }
      add(socket, 1);
      response.once('close', () => add(socket, -1));
      if (isWithoutHost(request)) response.writeHead(400, { connection: 'close' }).end();
      else answer(request, response);
    };
  const pass: Answer = (request, response) => handle.call(server, request, response);
  server.off('request', handle);
  server.on('request', limit(pass));
  server.on(
    'checkContinue',
    limit((request, response) => {
      response.writeContinue();
      pass(request, response);
    }),
  );
  server.on(
    'checkExpectation',
    limit((_request, response) => response.writeHead(417).end()),
  );
}

/** True for a request that must be answered with 400 (RFC 9112 §3.2). */
const isWithoutHost = ({ httpVersion, headers }: IncomingMessage) =>
  httpVersion === '1.1' && headers.host === undefined;
