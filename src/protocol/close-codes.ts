/**
 * Close code of `/ws` by the `code` of the `error` message that comes before the close (docs/protocol.md, "Errors on the
 * WebSocket"). The page uses the same list.
 */
export const CLOSE_CODES = {
  message_too_big: 1009,
  internal_error: 1011,
  draining: 1012,
  overloaded: 1013,
  bad_request: 4400,
  bad_message: 4400,
  unauthorized: 4401,
  minutes_exhausted: 4402,
  forbidden: 4403,
  heartbeat_timeout: 4408,
  replaced: 4409,
  unsupported_media_type: 4400,
  unsupported_audio: 4415,
  audio_rate_exceeded: 4422,
  rate_limited: 4429,
  ccu_limit: 4429,
  media_lost: 4504,
  slow_consumer: 4490,
  upgrade_required: 4400,
  method_not_allowed: 4400,
  precondition_failed: 4400,
  unprocessable: 4400,
  precondition_required: 4400,
  not_found: 4400,
} as const;

/** Name of a fault on the wire. */
export type ErrorCode = keyof typeof CLOSE_CODES;

const RETRYABLE: ReadonlySet<ErrorCode> = new Set([
  'internal_error',
  'draining',
  'overloaded',
  'heartbeat_timeout',
  'rate_limited',
  'ccu_limit',
  'media_lost',
  'slow_consumer',
]);

/** Returns whether a client may try again after a fault, unchanged. */
export const isRetryable = (code: ErrorCode): boolean => RETRYABLE.has(code);
