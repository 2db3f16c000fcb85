import { resourceOf } from '../resources.ts';

/**
 * Every fault that a client can be told of, in one place: what it is called on the wire, the WebSocket close code
 * when it is fatal there, and the HTTP status over REST (docs/protocol.md, "Errors").
 */
const KINDS = {
  message_too_big: { closeCode: 1009, status: 413, retryable: false, title: 'Message too big' },
  internal_error: { closeCode: 1011, status: 500, retryable: true, title: 'Internal error' },
  draining: { closeCode: 1012, status: 503, retryable: true, title: 'Draining' },
  overloaded: { closeCode: 1013, status: 503, retryable: true, title: 'Overloaded' },
  bad_request: { closeCode: 4400, status: 400, retryable: false, title: 'Bad request' },
  bad_message: { closeCode: 4400, status: 400, retryable: false, title: 'Bad message' },
  unauthorized: { closeCode: 4401, status: 401, retryable: false, title: 'Unauthorized' },
  minutes_exhausted: {
    closeCode: 4402,
    status: 402,
    retryable: false,
    title: 'Minutes exhausted',
  },
  forbidden: { closeCode: 4403, status: 403, retryable: false, title: 'Forbidden' },
  heartbeat_timeout: { closeCode: 4408, status: 408, retryable: true, title: 'Heartbeat time-out' },
  replaced: { closeCode: 4409, status: 409, retryable: false, title: 'Replaced' },
  unsupported_media_type: {
    closeCode: 4400,
    status: 415,
    retryable: false,
    title: 'Unsupported media type',
  },
  unsupported_audio: { closeCode: 4415, status: 415, retryable: false, title: 'Unsupported audio' },
  audio_rate_exceeded: {
    closeCode: 4422,
    status: 422,
    retryable: false,
    title: 'Audio rate exceeded',
  },
  rate_limited: { closeCode: 4429, status: 429, retryable: true, title: 'Too many attempts' },
  ccu_limit: { closeCode: 4429, status: 429, retryable: true, title: 'Too many connections' },
  media_lost: { closeCode: 4504, status: 503, retryable: true, title: 'Media lost' },
  slow_consumer: { closeCode: 4490, status: 408, retryable: true, title: 'Slow consumer' },
  upgrade_required: { closeCode: 4400, status: 426, retryable: false, title: 'Upgrade required' },
  not_found: { closeCode: 4400, status: 404, retryable: false, title: 'Not found' },
} as const;

export type ErrorCode = keyof typeof KINDS;

/** Delay told to a client for which something had run out, ms. */
const SHORT_RETRY_MS = 5000;

/** A fault whose words may be shown to the client; everything else that is thrown becomes `internal_error`. */
export class PartylineError extends Error {
  override readonly name = 'PartylineError';
  readonly code: ErrorCode;
  readonly retryAfterMs: number | undefined;
  /** When there are minutes again, ISO 8601. */
  readonly resetsAt: string | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options?: ErrorOptions & { retryAfterMs?: number; resetsAt?: string },
  ) {
    super(message, options);
    this.code = code;
    this.retryAfterMs = options?.retryAfterMs;
    this.resetsAt = options?.resetsAt;
  }

  get kind(): (typeof KINDS)[ErrorCode] {
    return KINDS[this.code];
  }

  /** What the client may see of any thrown value: its own words if it is ours, else a sentence that gives nothing away. */
  static from(thrown: unknown): PartylineError {
    if (thrown instanceof PartylineError) return thrown;
    const resource = resourceOf(thrown);
    if (resource) {
      const options = { cause: thrown, retryAfterMs: SHORT_RETRY_MS };
      return new PartylineError('overloaded', `This node is short of ${resource}.`, options);
    }
    return new PartylineError('internal_error', 'A fault on our side; it has been logged.', {
      cause: thrown,
    });
  }
}

export const notFound = () => new PartylineError('not_found', 'There is nothing at this address.');

/** Why a connection ends when its peer has made another. */
export const replaced = () => new PartylineError('replaced', 'The same peer has connected again.');

/** What a client is told that says something, though its token does not allow it. */
export const mayNotPublish = () =>
  new PartylineError('forbidden', 'The token does not allow to publish.');
