import type { FastifyBaseLogger, FastifyRequest } from 'fastify';

/** Number of requests of a sender within an interval that are logged one by one (two lines each: begin and end). */
const LOGGED_SINGLY = 60;

/** Sender of an authenticated request: the id of an account, or the operator. */
export type Sender = number | 'operator';

/** Requests of a sender within an interval. */
type Requests = {
  /** Number of requests that have begun, without those that are always logged one by one. */
  begun: number;
  /** Number of answered requests that were not logged one by one, by status. */
  further: Record<string, number>;
};

/** Routes of which a POST begins a session. The number of such requests is limited by the budget of connections, so they cannot fill the log. */
const BEGINS_SESSION = new Set(['/whip/:room', '/whep/:room']);

/** Methods of requests that change nothing. */
const READS = new Set(['GET', 'HEAD']);

/** True for a request that is always logged one by one: it begins a session, or the operator changes something. */
function isSingle({ ws, method, routeOptions }: FastifyRequest, sender: Sender): boolean {
  if (ws || (sender === 'operator' && !READS.has(method))) return true;
  return method === 'POST' && BEGINS_SESSION.has(routeOptions.url ?? '');
}

/**
 * Logs the requests of authenticated clients: the first ones of a sender within an interval one by one, the others as one line per
 * interval. An account may send 15,000 a minute, whose lines would fill a disk in days. Beginnings of sessions, changes by the operator
 * and answers with 500 are always logged one by one.
 */
export class RequestLog {
  readonly #log: FastifyBaseLogger;
  readonly #timer: NodeJS.Timeout;
  readonly #requests = new Map<Sender, Requests>();
  readonly #isLogged = new WeakSet<FastifyRequest>();

  /** @param everyMs the interval */
  constructor(log: FastifyBaseLogger, everyMs: number) {
    this.#log = log;
    this.#timer = setInterval(() => this.#flush(), everyMs);
  }

  begin(request: FastifyRequest, sender: Sender): void {
    if (!isSingle(request, sender)) {
      const requests = this.#requestsOf(sender);
      requests.begun += 1;
      if (requests.begun > LOGGED_SINGLY) return;
    }
    this.#isLogged.add(request);
    request.log.info({ req: request }, 'incoming request');
  }

  end(request: FastifyRequest, sender: Sender, statusCode: number, elapsedMs: number): void {
    // An upgrade has no answer: its session logs the end, and visitors.ts a refusal.
    if (request.ws) return;
    // The line that `logFault` writes for a 500 has no path: this one has.
    if (this.#isLogged.has(request) || statusCode === 500) {
      const res = { statusCode };
      request.log.info({ req: request, res, elapsedMs }, 'request completed');
      return;
    }
    const { further } = this.#requestsOf(sender);
    further[statusCode] = (further[statusCode] ?? 0) + 1;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#flush();
  }

  #requestsOf(sender: Sender): Requests {
    const requests = this.#requests.get(sender) ?? { begun: 0, further: {} };
    this.#requests.set(sender, requests);
    return requests;
  }

  #flush(): void {
    for (const [account, { further }] of this.#requests) {
      if (Object.keys(further).length === 0) continue;
      this.#log.info({ account, completed: further }, 'further requests completed');
    }
    this.#requests.clear();
  }
}
