import { resourceOf } from '../resources.ts';
import { CLOSE_CODES, type ErrorCode, isRetryable } from './close-codes.ts';

/** HTTP status and title of each fault over REST (RFC 9457). */
const PROBLEMS: Record<ErrorCode, { status: number; title: string }> = {
  message_too_big: { status: 413, title: 'Message too big' },
  internal_error: { status: 500, title: 'Internal error' },
  draining: { status: 503, title: 'Draining' },
  overloaded: { status: 503, title: 'Overloaded' },
  bad_request: { status: 400, title: 'Bad request' },
  bad_message: { status: 400, title: 'Bad message' },
  unauthorized: { status: 401, title: 'Unauthorized' },
  minutes_exhausted: { status: 402, title: 'Minutes exhausted' },
  forbidden: { status: 403, title: 'Forbidden' },
  heartbeat_timeout: { status: 408, title: 'Heartbeat time-out' },
  replaced: { status: 409, title: 'Replaced' },
  unsupported_media_type: { status: 415, title: 'Unsupported media type' },
  unsupported_audio: { status: 415, title: 'Unsupported audio' },
  audio_rate_exceeded: { status: 422, title: 'Audio rate exceeded' },
  rate_limited: { status: 429, title: 'Too many attempts' },
  ccu_limit: { status: 429, title: 'Too many connections' },
  media_lost: { status: 503, title: 'Media lost' },
  slow_consumer: { status: 408, title: 'Slow consumer' },
  upgrade_required: { status: 426, title: 'Upgrade required' },
  method_not_allowed: { status: 405, title: 'Method not allowed' },
  precondition_failed: { status: 412, title: 'Precondition failed' },
  unprocessable: { status: 422, title: 'Unprocessable content' },
  precondition_required: { status: 428, title: 'Precondition required' },
  not_found: { status: 404, title: 'Not found' },
};

/** Delay sent to a client that was refused because a resource had run out, ms. */
const SHORT_RETRY_MS = 5000;

/** Fault whose message may be shown to the client; everything else that is thrown becomes `internal_error`. */
export class PartylineError extends Error {
  override readonly name = 'PartylineError';
  readonly code: ErrorCode;
  readonly retryAfterMs: number | undefined;
  /** Time at which the account has minutes again, ISO 8601. */
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

  /** Name of the fault on the WebSocket and over REST. */
  get kind(): { closeCode: number; retryable: boolean; status: number; title: string } {
    const { code } = this;
    return { closeCode: CLOSE_CODES[code], retryable: isRetryable(code), ...PROBLEMS[code] };
  }

  /** Turns any thrown value into a fault that may be shown to the client; the message of a foreign error is replaced. */
  static from(thrown: unknown): PartylineError {
    if (thrown instanceof PartylineError) return thrown;
    const resource = resourceOf(thrown);
    if (resource) {
      const options = { cause: thrown, retryAfterMs: SHORT_RETRY_MS };
      return new PartylineError('overloaded', `This node is short of ${resource}.`, options);
    }
    return new PartylineError('internal_error', 'Internal error; it has been logged.', {
      cause: thrown,
    });
  }
}

export const notFound = () => new PartylineError('not_found', 'There is nothing at this address.');

/** Returns the fault that ends a connection whose peer has made another. */
export const replaced = () => new PartylineError('replaced', 'The same peer has connected again.');

/** Time after which a client that has sent less RTP meanwhile may be within its budget again, ms. */
const RTP_RETRY_AFTER_MS = 5000;

/** Returns the fault that is told to a client whose RTP packets come far ahead of real time. */
export const rtpTooFast = () =>
  new PartylineError('rate_limited', 'RTP packets come far ahead of real time.', {
    retryAfterMs: RTP_RETRY_AFTER_MS,
  });

/** Returns the fault that ends a client whose RTP packets have come far ahead of real time for too long. */
export const rtpExceeded = () =>
  new PartylineError('audio_rate_exceeded', 'RTP packets came far ahead of real time.');

/** Returns the fault that ends a client whose transport was closed, because the client sent too much, or did not read. */
export const transportCut = () =>
  new PartylineError('rate_limited', 'The client sent too much over WebRTC, or did not read.');

/** Returns the fault for audio of a client whose token does not allow it to publish. */
export const mayNotPublish = () =>
  new PartylineError('forbidden', 'The token does not allow publishing.');
