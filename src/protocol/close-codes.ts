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

/** Faults that only answers over REST name: no connection is closed for one. */
type RestCode =
  | 'unsupported_media_type'
  | 'upgrade_required'
  | 'method_not_allowed'
  | 'precondition_failed'
  | 'unprocessable'
  | 'precondition_required'
  | 'not_found';

/**
 * Descriptions of the faults for which a connection is closed: `when` it is, and what the `client` should do then. The table in
 * docs/protocol.md is made from them. This is a list of its own, so that the scripts of the page do not contain the texts.
 */
export const CLOSE_MEANINGS: Readonly<
  Record<Exclude<ErrorCode, RestCode>, { when: string; client: string }>
> = {
  message_too_big: { when: 'a message over 64 KiB', client: 'fix' },
  internal_error: { when: 'a fault of the gateway', client: 'retry with back-off' },
  draining: { when: 'this node is going away', client: 'reconnect at once, with jitter' },
  overloaded: {
    when: 'the node is overloaded, short of a resource or draining, or Redis is unreachable',
    client: 'retry after `retry_after_ms`',
  },
  bad_request: {
    when: 'a query parameter is missing or invalid (except a malformed `room`, above)',
    client: 'fix',
  },
  bad_message: { when: 'too many bad messages', client: 'fix' },
  unauthorized: { when: 'key missing, unknown or revoked; token expired', client: 'fix' },
  minutes_exhausted: { when: "the month's minutes are used up", client: 'wait for `resets_at`' },
  forbidden: {
    when: 'account suspended; token is for another peer; removed by an operator',
    client: 'do not retry',
  },
  heartbeat_timeout: { when: 'no frame and no pong for 30 s', client: 'reconnect' },
  replaced: { when: 'same `peer` connected again', client: 'do not retry' },
  unsupported_audio: {
    when: 'an unknown `audio` value in the query, or bytes that do not decode (an unknown value in `configure` leaves the socket open)',
    client: 'fix',
  },
  audio_rate_exceeded: {
    when: 'audio faster than real time for over 5 s, over the WebSocket or WebRTC (below); over WebRTC also while the client is muted',
    client: 'fix',
  },
  ccu_limit: { when: "the account's CCU are in use", client: 'retry after `retry_after_ms`' },
  rate_limited: {
    when: 'too many failed authentications; over a budget for 5 s (below)',
    client: 'retry after `retry_after_ms`',
  },
  slow_consumer: {
    when: '1 MiB of text waits for the client (unread sound is dropped: "Never stale")',
    client: 'reconnect',
  },
  media_lost: { when: 'media could not be restored after a fault', client: 'reconnect' },
};
