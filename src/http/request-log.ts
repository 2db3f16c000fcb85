import type { FastifyBaseLogger, FastifyRequest } from 'fastify';

/**
 * Number of requests of a sender within an interval that are logged one by one (two lines each: begin and end): those that begin a session,
 * of which all clients of an account may send one at once, and all others.
 */
const LOGGED_SINGLY = { sessions: 600, others: 60 };
/** Status of a request that begins the session of a WebSocket. */
const UPGRADED = 101;

/** Sender of an authenticated request: the id of an account, or the operator. */
export type Sender = number | 'operator';

/** Requests of a sender within an interval. */
type Requests = {
  /** Numbers of requests that have begun, without those that are always logged one by one. */
  begun: Record<keyof typeof LOGGED_SINGLY, number>;
  /** Number of answered requests and upgrades that were not logged one by one, by status. */
  further: Record<string, number>;
};

/** Routes of which a POST begins a session. */
const BEGINS_SESSION = new Set(['/whip/:room', '/whep/:room']);

/** Methods of requests that change nothing. */
const READS = new Set(['GET', 'HEAD']);

/** True for a request that is always logged one by one: the operator changes something. */
const isChange = ({ method }: FastifyRequest, sender: Sender) =>
  sender === 'operator' && !READS.has(method);

const beginsSession = ({ ws, method, routeOptions }: FastifyRequest) =>
  ws || (method === 'POST' && BEGINS_SESSION.has(routeOptions.url ?? ''));

/**
 * Logs the requests of authenticated clients: the first ones of a sender within an interval one by one, the others as one line per
 * interval. An account may send 15,000 a minute, whose lines would fill a disk in days. Changes by the operator
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
    if (!isChange(request, sender)) {
      const { begun } = this.#requestsOf(sender);
      const kind = beginsSession(request) ? 'sessions' : 'others';
      begun[kind] += 1;
      if (begun[kind] > LOGGED_SINGLY[kind]) {
        if (request.ws) this.#countFurther(sender, UPGRADED);
        return;
      }
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
    this.#countFurther(sender, statusCode);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#flush();
  }

  #countFurther(sender: Sender, statusCode: number): void {
    const { further } = this.#requestsOf(sender);
    further[statusCode] = (further[statusCode] ?? 0) + 1;
  }

  #requestsOf(sender: Sender): Requests {
    const requests = this.#requests.get(sender) ?? {
      begun: { sessions: 0, others: 0 },
      further: {},
    };
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
