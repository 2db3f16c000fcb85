import type { FastifyBaseLogger, FastifyRequest } from 'fastify';

/** Number of requests of a sender within an interval that are logged singly, with two lines each. */
const LOGGED_SINGLY = 60;

/** Sender of an authenticated request: the number of an account, or the operator. */
export type Sender = number | 'operator';

/** Number of requests of a sender that have begun, and of those not logged singly that have been answered, by status. */
type Requests = { begun: number; further: Record<string, number> };

/** Routes whose requests begin a session: like upgrades, they have a budget of their own. */
const BEGINS_SESSION = new Set(['/whip/:room', '/whep/:room']);

/** True for a request that is always logged singly: it begins a session, or the operator changes something. */
function isSingle({ ws, method, routeOptions }: FastifyRequest, sender: Sender): boolean {
  if (ws || (sender === 'operator' && method !== 'GET')) return true;
  return method === 'POST' && BEGINS_SESSION.has(routeOptions.url ?? '');
}

/**
 * Logs the requests of authenticated clients: the first ones of a sender within an interval singly, others as one line. An account
 * may send 15,000 a minute, whose lines would fill a disk in days. Beginnings of sessions, changes by the operator and answers with 500 are
 * always logged singly.
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
    if (request.ws) return;
    // The line of a fault has no path.
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
    for (const [account, { further: completed }] of this.#requests) {
      if (Object.keys(completed).length === 0) continue;
      this.#log.info({ account, completed }, 'further requests completed');
    }
    this.#requests.clear();
  }
}
