import { CLOSE_CODES } from '../../../src/protocol/close-codes.ts';
import type { ServerMessage } from '../../../src/protocol/messages.ts';
import { Connection, type MessageOf } from './connection.ts';
import { TokenError } from './errors.ts';
import { reasonForCloseCode, retryDelayMs, welcomeTimeoutMs, type CloseReason } from './retry.ts';

/** State between two connections: why the last one broke. `attempt` counts from 0; `retryAt` is the time of the next attempt, Unix time in ms. */
export type Pause = { reason: CloseReason; attempt: number; retryAt: number };

type ReconnectorHandlers = {
  /** Called when a connection is being opened. */
  opening: () => void;
  /** Called when the gateway has admitted the client. */
  up: (connection: Connection, welcome: MessageOf<'welcome'>) => void;
  received: (connection: Connection, message: ServerMessage) => void;
  /** Called when the connection broke; the next attempt is automatic. */
  down: (pause: Pause) => void;
  /** Called when the gateway closed the connection for a reason that another attempt would not change. */
  ended: (reason: CloseReason) => void;
};

/** Minimum life of a connection after which the delays between attempts begin with the shortest again, ms. */
const STEADY_MS = 5_000;
/**
 * Time for which an attempt that ended without an answer may still reach the gateway, and replace a newer connection, ms: the operating
 * system sends its request again, or the gateway is slow to admit it.
 */
const LATE_ATTEMPT_MS = 60_000;
/** Longest wait for the address of a connection, and the token in it, ms. */
const LONGEST_TOKEN_MS = 10_000;

/** Opens a connection to the gateway, and another one whenever it breaks, until `close()`. */
export class Reconnector {
  readonly #getUrl: () => Promise<URL>;
  readonly #handlers: ReconnectorHandlers;
  #connection: Connection | undefined;
  #timer: number | undefined;
  #attempt = 0;
  #upSince = Infinity;
  /** Time for which the gateway keeps the place of a lost client (`resume_ms`). */
  #resumeMs = 0;
  /** Time until which the gateway keeps the place; in the past while the client is connected. */
  #keptUntil = -Infinity;
  /** Time until which an attempt that was given up may replace a newer connection. */
  #lateUntil = -Infinity;
  /** Attempt that waits for its address. */
  #opening: object | undefined;
  #closed = false;

  /** @param getUrl called at each attempt; throws a `TokenError` if the client cannot be admitted */
  constructor(getUrl: () => Promise<URL>, handlers: ReconnectorHandlers) {
    this.#getUrl = getUrl;
    this.#handlers = handlers;
  }

  readonly open = (): void => {
    if (this.#closed || this.#opening) return;
    this.#stopWaiting();
    const opening = {};
    this.#opening = opening;
    const end = (go: () => void) => {
      if (this.#closed || this.#opening !== opening) return; // closed, or given up
      this.#opening = undefined;
      this.#stopWaiting();
      go();
    };
    this.#timer = window.setTimeout(() => end(() => this.#lost(NO_TOKEN)), LONGEST_TOKEN_MS);
    this.#handlers.opening();
    this.#getUrl().then(
      (url) => end(() => this.#connect(url)),
      (fault: unknown) => end(() => this.#lost(reasonOf(fault))),
    );
  };

  #connect(url: URL): void {
    try {
      this.#connection = this.#openConnection(url);
    } catch (fault) {
      // The browser refuses such addresses: `ws:` from a page over https, or a wrong scheme.
      const message = fault instanceof Error ? fault.message : String(fault);
      this.#lost({ ...UNREACHABLE, message, retryable: false });
    }
  }

  #openConnection(url: URL): Connection {
    const connection = new Connection(url, welcomeTimeoutMs(this.#keptMs), {
      welcomed: (welcome) => {
        this.#upSince = performance.now();
        this.#keptUntil = -Infinity;
        this.#resumeMs = welcome.resume_ms;
        this.#handlers.up(connection, welcome);
      },
      received: (message) => {
        if (message.type === 'draining') this.#leave(connection);
        this.#handlers.received(connection, message);
      },
      lost: (reason) => this.#lost(this.#judge(reason)),
    });
    return connection;
  }

  /** Makes one `replaced` retryable if an attempt that this client gave up may have caused it, and notes attempts that were given up. */
  #judge(reason: CloseReason): CloseReason {
    const nowMs = performance.now();
    const isOwn = reason.code === 'replaced' && nowMs < this.#lateUntil;
    if (isOwn) this.#lateUntil = -Infinity;
    else if (this.#upSince === Infinity && isSilent(reason))
      this.#lateUntil = nowMs + LATE_ATTEMPT_MS;
    return isOwn ? { ...reason, message: OVERTAKEN, retryable: true } : reason;
  }

  /** Leaves a node that drains before its deadline; clients do so at different moments. */
  #leave(connection: Connection): void {
    const move = () => {
      connection.fail('The gateway is restarting.', CLOSE_CODES.draining);
      this.open();
    };
    this.#stopWaiting();
    this.#timer = window.setTimeout(move, retryDelayMs(0));
  }

  close(): void {
    this.#closed = true;
    this.#stopWaiting();
    this.#connection?.close();
    this.#connection = undefined;
  }

  #lost(reason: CloseReason): void {
    this.#connection = undefined;
    if (this.#closed) return;
    this.#stopWaiting();
    if (!reason.retryable) {
      this.close();
      this.#handlers.ended(reason);
      return;
    }
    const upMs = performance.now() - this.#upSince;
    // A node that drains after it had admitted the client is no failure: another node, or its
    // successor, takes the client at once.
    if (upMs > STEADY_MS || (upMs > 0 && reason.code === 'draining')) this.#attempt = 0;
    if (upMs > 0) this.#keptUntil = performance.now() + this.#resumeMs;
    this.#upSince = Infinity;
    const attempt = this.#attempt++;
    const delayMs = retryDelayMs(attempt, reason.retryAfterMs, this.#keptMs);
    this.#timer = window.setTimeout(this.open, delayMs);
    window.addEventListener('online', this.open); // the network is back: no need to wait
    this.#handlers.down({ reason, attempt, retryAt: Date.now() + delayMs });
  }

  get #keptMs(): number {
    return this.#keptUntil - performance.now();
  }

  #stopWaiting(): void {
    window.clearTimeout(this.#timer);
    window.removeEventListener('online', this.open);
  }
}

const UNREACHABLE = reasonForCloseCode(1006);
/** Returns true if an attempt ended without an answer: it was given up here, or broke. */
const isSilent = ({ closeCode }: CloseReason): boolean =>
  closeCode === CLOSE_CODES.heartbeat_timeout || closeCode === UNREACHABLE.closeCode;
const OVERTAKEN = 'An earlier attempt to connect took the place of this connection.';
const NO_TOKEN: CloseReason = { ...UNREACHABLE, message: 'No token came within 10 s.' };

const reasonOf = (fault: unknown): CloseReason =>
  fault instanceof TokenError ? fault.reason : UNREACHABLE;
