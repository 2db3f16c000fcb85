import { mayBeKey } from '../key.ts';
import { type Problem, problemIn } from '../problem.ts';
import type {
  NodeDescription,
  NodeList,
  RoomDescription,
  RoomReference,
  RoomList,
} from '../../src/operator/schemas.ts';

/** Timeout of a request, ms; the page then treats a gateway that hangs as unreachable. */
const TIMEOUT_MS = 10_000;

/** Error of a request that the gateway, or a proxy in its place, refused, with the reason. */
export class Refusal extends Error {
  readonly status: number;
  /** Code of the gateway; undefined if a proxy answered. */
  readonly code: string | undefined;

  constructor(status: number, problem: Problem | undefined) {
    super(problem?.detail ?? `A proxy answered for the gateway, with status ${status}.`);
    this.status = status;
    this.code = problem?.code;
  }

  /** True if the key is not, or no longer, the operator's. */
  get isKeyRefused(): boolean {
    return this.code === 'unauthorized' || this.code === 'forbidden';
  }
}

/** Refusal of a text that cannot be sent as a key. */
const NO_KEY: Problem = { code: 'unauthorized', detail: 'This is not the operator key.' };

/** The gateway's REST interface for operators. Every method throws a {@link Refusal}, or another error if there is no answer within 10 s. */
export class Api {
  readonly #key: string;
  readonly #closing = new AbortController();

  constructor(key: string) {
    this.#key = key;
  }

  nodes(): Promise<NodeList> {
    return this.#send('GET', 'nodes');
  }

  /** Returns the node that serves this page, which answers even while Redis is disconnected. */
  self(): Promise<NodeDescription> {
    return this.#send('GET', 'nodes/self');
  }

  rooms(search: string, limit: number): Promise<RoomList> {
    return this.#send('GET', `rooms?${new URLSearchParams({ search, limit: String(limit) })}`);
  }

  room({ account_id, room }: RoomReference): Promise<RoomDescription> {
    return this.#send('GET', `rooms/${account_id}/${encodeURIComponent(room)}`);
  }

  drain(node: string): Promise<void> {
    return this.#send('POST', `nodes/${encodeURIComponent(node)}/drain`, {});
  }

  kick(accountId: number, peer: string): Promise<void> {
    return this.#send('POST', `accounts/${accountId}/peers/${encodeURIComponent(peer)}/kick`);
  }

  /** Aborts pending requests. */
  close(): void {
    this.#closing.abort();
  }

  async #send<T>(method: string, path: string, body?: object): Promise<T> {
    if (!mayBeKey(this.#key)) throw new Refusal(401, NO_KEY);
    this.#closing.signal.throwIfAborted();
    // By hand, because Safari has AbortSignal.any() from 17.4 on.
    const ending = new AbortController();
    const { signal } = ending;
    const end = () => ending.abort();
    const timer = setTimeout(end, TIMEOUT_MS);
    this.#closing.signal.addEventListener('abort', end, { signal });
    try {
      const response = await fetch(`../api/admin/${path}`, {
        method,
        headers: {
          authorization: `Bearer ${this.#key}`,
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
        cache: 'no-store',
        signal,
      });
      const text = await response.text();
      if (!response.ok) throw new Refusal(response.status, problemOf(text));
      return (text === '' ? undefined : JSON.parse(text)) as T;
    } finally {
      clearTimeout(timer);
      end(); // takes the listener away
    }
  }
}

function problemOf(text: string): Problem | undefined {
  try {
    return problemIn(JSON.parse(text));
  } catch {
    return undefined;
  }
}
