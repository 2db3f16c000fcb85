import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AttackContext, RawAttack } from './attack.ts';
import { BUSY_MONTH } from './busy-month.ts';
import {
  CONNECT_AGAIN_MS,
  IDLE_CONNECTIONS,
  isLost,
  keepOpen,
  keepWaiting,
  MAX_UNSENT_BYTES,
  MOST_STRANGERS,
  openTcp,
  turn,
} from './tcp.ts';

/** Attacks by HTTP requests. */

/** Requests that are written at once. */
const AT_ONCE = 64;
const STATUS_LINE = /HTTP\/1\.1 (\d{3})/g;

/** Opens a TCP connection that counts what it is told as HTTP answers. */
async function openHttp(context: AttackContext) {
  const { hostname, port } = new URL(context.url);
  const socket = await openTcp(context, hostname, Number(port));
  socket.on('data', (chunk) => {
    context.noteReceived(chunk.length);
    for (const [, status] of chunk.toString('latin1').matchAll(STATUS_LINE))
      context.noteAnswer(Number(status));
  });
  return socket;
}

/** Sends the same request in a pipeline without waiting for answers, and connects anew when it is refused. */
function pipeline(findPath: (url: string) => Promise<string>): RawAttack['open'] {
  return async (context) => {
    const path = await findPath(context.url);
    const request = Buffer.from(
      `GET ${path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${context.apiKey}\r\n\r\n`,
    );
    const requests = Buffer.concat(Array<Buffer>(AT_ONCE).fill(request));
    let socket = await openHttp(context);
    return async () => {
      while (!context.isOver()) {
        if (isLost(socket)) {
          await sleep(CONNECT_AGAIN_MS);
          socket = await openHttp(context);
          continue;
        }
        socket.write(requests, (fault) => {
          if (!fault) context.noteSent(AT_ONCE, requests.length);
        });
        await turn();
        while (socket.writableLength > MAX_UNSENT_BYTES && !isLost(socket) && !context.isOver())
          await sleep(1);
      }
      socket.destroy();
    };
  };
}

/** Returns the path of the page's script; of a server without a page, the root. */
async function findScript(url: string): Promise<string> {
  const page = await (await fetch(url)).text();
  return /<script[^>]* src="([^"]+)"/.exec(page)?.[1] ?? '/';
}

/** Names of the page's files that a script loads. */
const FILE_NAME = /[\w-]+-[\w-]{8}\.js/g;

/** Returns the path of the longest file of the page; of a server without a page, the root. */
async function findLongestFile(url: string): Promise<string> {
  const lengths = new Map<string, number>();
  const read = async (path: string): Promise<void> => {
    if (lengths.has(path)) return;
    lengths.set(path, 0);
    const file = await fetch(new URL(path, url));
    const text = await file.text();
    if (!file.ok) return;
    lengths.set(path, text.length);
    for (const [name] of text.matchAll(FILE_NAME)) await read(`/assets/${name}`);
  };
  await read('/');
  const [longest = '/'] = [...lengths].toSorted(([, one], [, other]) => other - one)[0] ?? [];
  return longest;
}

/** Returns a key that no account has. */
const guessKey = () => `pl_${randomBytes(32).toString('base64url')}`;

/**
 * Gets some paths in turn, each when the one before is answered, again and again.
 * @param makeKey returns the key of a request; by default there is none
 */
function getInTurn(
  findPaths: (url: string) => Promise<string[]>,
  makeKey?: () => string,
): RawAttack['open'] {
  return async (context) => {
    const paths = await findPaths(context.url);
    return async () => {
      for (let n = 0; !context.isOver(); n += 1) {
        try {
          const response = await fetch(new URL(paths[n % paths.length]!, context.url), {
            ...(makeKey && { headers: { authorization: `Bearer ${makeKey()}` } }),
          });
          context.noteSent(1, 0);
          context.noteAnswer(response.status);
          context.noteReceived((await response.arrayBuffer()).byteLength);
        } catch {
          context.noteTold('no answer');
          await sleep(CONNECT_AGAIN_MS);
        }
      }
    };
  };
}

/** Reports that one client asks for at a time: the gateway reads one of an account, lets three wait, and refuses the others. */
const REPORTS = 8;
/** Maximum number of these clients: one process has to read what they are sent. */
const MOST_REPORTING_CLIENTS = 10;
const LOOK_EVERY_MS = 50;

/** Asks for several reports of a busy month at a time, again and again. */
const askForReports: RawAttack['open'] = async (context) => {
  const address = new URL(`/api/usage?${BUSY_MONTH}`, context.url);
  const headers = { authorization: `Bearer ${context.apiKey}` };
  const ended = new AbortController();
  const ask = async (): Promise<void> => {
    try {
      const response = await fetch(address, { headers, signal: ended.signal });
      context.noteSent(1, 0);
      context.noteAnswer(response.status);
      for await (const chunk of response.body ?? []) context.noteReceived(chunk.length);
    } catch {
      if (context.isOver()) return;
      context.noteTold('no answer');
      await sleep(CONNECT_AGAIN_MS);
    }
  };
  const askAgain = async () => {
    while (!context.isOver()) await ask();
  };
  return async () => {
    const looking = setInterval(() => {
      if (context.isOver()) ended.abort();
    }, LOOK_EVERY_MS);
    await Promise.all(Array.from({ length: REPORTS }, askAgain));
    clearInterval(looking);
  };
};

/** Number of connections of one client that each send a body. */
const SLOW_BODIES = 300;
/** Maximum number of these clients: their connections take file descriptors of one process. */
const MOST_SLOW_CLIENTS = 10;

/** Sends bodies of which one byte comes in a second. */
const sendBodiesSlowly: RawAttack['open'] = (context) => {
  const head = `POST /api/tokens HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer ${context.apiKey}\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n`;
  return keepWaiting(context, SLOW_BODIES, async () => {
    const socket = await openHttp(context);
    if (!isLost(socket)) context.noteAccepted();
    socket.write(head);
    return socket;
  });
};

/** Keeps connections open, as somebody without a key. @param request what is sent over each at its beginning */
const stayAsStranger =
  (request: string): RawAttack['open'] =>
  (context) =>
    keepOpen(context, IDLE_CONNECTIONS, async () => {
      const socket = await openHttp(context);
      if (request === '') return socket;
      socket.write(request, (fault) => {
        if (!fault) context.noteSent(1, request.length);
      });
      return socket;
    });

export const HTTP_ATTACKS: RawAttack[] = [
  {
    name: 'HTTP requests in a pipeline: `/api/me`',
    open: pipeline(async () => '/api/me'),
    isRefused: true,
  },
  {
    name: "HTTP requests in a pipeline: the page's script",
    open: pipeline(findScript),
    isRefused: true,
  },
  {
    name: "HTTP requests one after another: the page's longest file",
    open: getInTurn(async (url) => [await findLongestFile(url)]),
  },
  {
    name: 'HTTP requests one after another: `/metrics` and `/%6detrics`',
    open: getInTurn(async () => ['/metrics', '/%6detrics']),
  },
  {
    name: 'HTTP requests one after another: `/api/me`, each with another wrong key',
    open: getInTurn(async () => ['/api/me'], guessKey),
    isRefused: true,
    provokes: '401',
  },
  {
    name: 'HTTP requests one after another: `/api/admin/nodes`, each with another wrong key of the operator',
    open: getInTurn(async () => ['/api/admin/nodes'], guessKey),
    isRefused: true,
    provokes: '401',
  },
  {
    name: `usage reports of a busy month, ${REPORTS} at a time`,
    open: askForReports,
    isRefused: true,
    hasBusyMonth: true,
    mostClients: MOST_REPORTING_CLIENTS,
    provokes: '429',
  },
  {
    name: `${SLOW_BODIES} HTTP requests with a body of a byte a second`,
    open: sendBodiesSlowly,
    mostClients: MOST_SLOW_CLIENTS,
  },
  {
    name: `${IDLE_CONNECTIONS} connections without a request, of somebody without a key`,
    open: stayAsStranger(''),
    isRefused: true,
    mostClients: MOST_STRANGERS,
  },
  {
    name: `${IDLE_CONNECTIONS} connections that stay after a request for \`/healthz\`, of somebody without a key`,
    open: stayAsStranger('GET /healthz HTTP/1.1\r\nHost: gateway\r\n\r\n'),
    isRefused: true,
    provokes: '200',
    mostClients: MOST_STRANGERS,
  },
];
