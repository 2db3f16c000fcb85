import { mayBeKey } from '../key.ts';
import type {
  NodeDescription,
  NodeList,
  RoomDescription,
  RoomKey,
  RoomList,
} from '../../src/operator/schemas.ts';

/** Longest wait for an answer, ms: the page takes a gateway that hangs for one that is gone. */
const TIMEOUT_MS = 10_000;

/** Error of a request that the gateway refused, with its reason. */
export class Refusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }

  /** True if the key is not, or no longer, the operator's. */
  get isOfKey(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

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

  room({ account_id, room }: RoomKey): Promise<RoomDescription> {
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
    if (!mayBeKey(this.#key)) throw new Refusal(401, 'This is not the operator key.');
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
      if (!response.ok) throw new Refusal(response.status, reasonIn(text) ?? response.statusText);
      return (text === '' ? undefined : JSON.parse(text)) as T;
    } finally {
      clearTimeout(timer);
      end(); // takes the listener away
    }
  }
}

/** Returns the detail of a problem document; a proxy may have answered something else. */
function reasonIn(text: string): string | undefined {
  try {
    return (JSON.parse(text) as { detail?: string }).detail;
  } catch {
    return undefined;
  }
}
