import type { CloseReason } from './retry.ts';

/** Error of the client. `code` is one of docs/protocol.md, or one that the subclass documents. */
export class PartylineError extends Error {
  override readonly name: string = 'PartylineError';
  readonly code: string;
  /** True if trying again unchanged may help. */
  readonly retryable: boolean;

  constructor(code: string, message: string, retryable: boolean) {
    super(message);
    this.code = code;
    this.retryable = retryable;
  }
}

/**
 * A request that was refused, or that got no answer (`timeout`, `disconnected`). `join()` also fails with `left`, `moved`
 * or `no_path`.
 */
export class RequestError extends PartylineError {
  override readonly name = 'RequestError';
}

export const moved = () => new RequestError('moved', 'Moved to another room.', false);

/** The connection ended permanently, or could not be opened; `reason` has the close code, too. */
export class ClosedError extends PartylineError {
  override readonly name = 'ClosedError';
  readonly reason: CloseReason;

  constructor(reason: CloseReason) {
    super(reason.code, reason.message, reason.retryable);
    this.reason = reason;
  }
}

/** Thrown by `getToken` when there is no token; a retryable one is retried like a broken connection. */
export class TokenError extends PartylineError {
  override readonly name = 'TokenError';
  readonly reason: CloseReason;

  constructor(reason: CloseReason) {
    super(reason.code, reason.message, reason.retryable);
    this.reason = reason;
  }
}
