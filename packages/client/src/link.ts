import type { ServerMessage } from '../../../src/protocol/messages.ts';
import { Connection, type MessageOf } from './connection.ts';
import { TokenError } from './errors.ts';
import { reasonForCloseCode, retryDelayMs, welcomeTimeoutMs, type CloseReason } from './retry.ts';

/** A broken connection, and when the next is tried. */
export type Pause = { reason: CloseReason; attempt: number; retryAt: number };

type LinkHandlers = {
  /** A connection is being opened. */
  opening: () => void;
  /** The gateway has let us in. */
  up: (connection: Connection, welcome: MessageOf<'welcome'>) => void;
  received: (connection: Connection, message: ServerMessage) => void;
  /** The connection broke; the next is tried by itself. */
  down: (pause: Pause) => void;
  /** The gateway closed the connection for a reason that trying again would not mend. */
  ended: (reason: CloseReason) => void;
};

/** Least life of a connection after which waiting starts from the shortest again when it breaks. */
const STEADY_MS = 5_000;
const DRAINING = 1012;
/** Longest wait for the address of a connection, and the token in it, ms. */
const LONGEST_TOKEN_MS = 10_000;

/** Keeps a connection to the gateway: opens it, and another when it breaks, until `close()`. */
export class Link {
  readonly #getUrl: () => Promise<URL>;
  readonly #handlers: LinkHandlers;
  #connection: Connection | undefined;
  #timer: number | undefined;
  #attempt = 0;
  #upSince = Infinity;
  /** How long the gateway keeps our place after it has lost us. */
  #resumeMs = 0;
  /** Until when it does; in the past while we are connected. */
  #keptUntil = -Infinity;
  /** The attempt whose address was asked for and is not there yet. */
  #opening: object | undefined;
  #closed = false;

  /** @param getUrl asked at each attempt; throws a `TokenError` where there is no being let in */
  constructor(getUrl: () => Promise<URL>, handlers: LinkHandlers) {
    this.#getUrl = getUrl;
    this.#handlers = handlers;
  }

  readonly open = (): void => {
    if (this.#closed || this.#opening) return;
    this.#stopWaiting();
    const opening = {};
    this.#opening = opening;
    const end = (go: () => void) => {
      if (this.#closed || this.#opening !== opening) return; // it came too late
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
      // The browser opens no such address at all: `ws:` from a page over https, or a wrong scheme.
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
      lost: (reason) => this.#lost(reason),
    });
    return connection;
  }

  /** The node goes away: we go to another before it does, though not all at the same instant. */
  #leave(connection: Connection): void {
    const move = () => {
      connection.fail('The gateway is restarting.', DRAINING);
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
    // A node that goes away (and had let us in) is no fault: another, or its successor, is there at once.
    if (upMs > STEADY_MS || (upMs > 0 && reason.code === 'draining')) this.#attempt = 0;
    if (upMs > 0) this.#keptUntil = performance.now() + this.#resumeMs;
    this.#upSince = Infinity;
    const attempt = this.#attempt++;
    const delayMs = retryDelayMs(attempt, reason.retryAfterMs, this.#keptMs);
    this.#timer = window.setTimeout(this.open, delayMs);
    window.addEventListener('online', this.open); // the network is back: why wait
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
const NO_TOKEN: CloseReason = { ...UNREACHABLE, message: 'There was no token within 10 s.' };

const reasonOf = (fault: unknown): CloseReason =>
  fault instanceof TokenError ? fault.reason : UNREACHABLE;
