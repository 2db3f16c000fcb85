import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '../network-of.ts';
import type { Slices } from '../slices.ts';
import { unroutedAnswer } from './problem.ts';

/**
 * Maximum number of unanswered requests of a connection; beyond it the connection is closed. Browsers and proxies send a request after the
 * answer to the previous one; 64 KB of a connection, which Node reads at once, may hold thousands of requests.
 */
const MAX_UNANSWERED = 16;

/** Undocumented property of Node's sockets that is used here; a test counts the requests that are read. */
type Internals = { parser?: { onIncoming: () => number } | null };

/** Return value of `onIncoming` after which Node's parser reads nothing behind the head of a request, as after an upgrade. */
const STOP = 2;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** Requests of a connection without an answer: one that is handled, and those that wait for its response to end, in order. */
type Line = { network: string; isBusy: boolean; waiting: (() => void)[] };

/**
 * Handles one request of a connection at a time, in slices and in turn between the networks of clients, and closes connections that
 * send many requests without waiting for answers: Node would have all of them handled at once, and each may open a file. Requests that
 * Node would answer by itself count, too.
 * @param server server whose last `request` listener handles requests, and that has no `requireHostHeader`: that is checked here
 * @param onClosed called with the address of a connection that is closed
 */
export function limitPipelining(
  server: Pick<Server, 'listeners' | 'off' | 'on'>,
  slices: Slices,
  onClosed: (address: string) => void,
): void {
  const handle = server.listeners('request').at(-1) as RequestListener;
  const lines = new WeakMap<Socket, Line>();
  const lineOf = (socket: Socket) => {
    const network = networkOf(socket.remoteAddress ?? '');
    const line = lines.get(socket) ?? { network, isBusy: false, waiting: [] };
    lines.set(socket, line);
    return line;
  };
  const startNext = (line: Line) => {
    const start = line.waiting.shift();
    line.isBusy = start !== undefined;
    if (start) slices.add(line.network, start);
  };
  const limit =
    (answer: Answer): Answer =>
    (request, response) => {
      const { socket } = request;
      const line = lineOf(socket);
      if (line.waiting.length + Number(line.isBusy) >= MAX_UNANSWERED) {
        // Stop Node's parser: the chunk may hold thousands of further requests, which take 0.1 s to
        // parse.
        const { parser } = socket as Internals;
        if (parser) parser.onIncoming = () => STOP;
        onClosed(socket.remoteAddress ?? '');
        socket.destroy();
        return;
      }
      line.waiting.push(() => {
        // Waiting requests end with their connection.
        if (socket.destroyed) return;
        response.once('close', () => startNext(line));
        if (isWithoutHost(request)) {
          response.setHeader('connection', 'close');
          refuse(response, 400, 'The header "Host" is missing.');
        } else answer(request, response);
      });
      if (!line.isBusy) startNext(line);
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
    limit((_request, response) => refuse(response, 417, '"Expect" must be "100-continue".')),
  );
}

function refuse(response: ServerResponse, status: number, detail: string): void {
  const { headers, body } = unroutedAnswer(status, detail);
  response.writeHead(status, headers).end(body);
}

/** True for a request that must be answered with 400 (RFC 9112 §3.2). */
const isWithoutHost = ({ httpVersion, headers }: IncomingMessage) =>
  httpVersion === '1.1' && headers.host === undefined;
