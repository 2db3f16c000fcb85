/**
 * Close code of `/ws`, and whether the client may try again, by the `code` of the `error` message that comes before the close
 * (docs/protocol.md, "Errors on the WebSocket"). The page uses the same list.
 */
export const CLOSE_CODES = {
  message_too_big: { closeCode: 1009, retryable: false },
  internal_error: { closeCode: 1011, retryable: true },
  draining: { closeCode: 1012, retryable: true },
  overloaded: { closeCode: 1013, retryable: true },
  bad_request: { closeCode: 4400, retryable: false },
  bad_message: { closeCode: 4400, retryable: false },
  unauthorized: { closeCode: 4401, retryable: false },
  minutes_exhausted: { closeCode: 4402, retryable: false },
  forbidden: { closeCode: 4403, retryable: false },
  heartbeat_timeout: { closeCode: 4408, retryable: true },
  replaced: { closeCode: 4409, retryable: false },
  unsupported_media_type: { closeCode: 4400, retryable: false },
  unsupported_audio: { closeCode: 4415, retryable: false },
  audio_rate_exceeded: { closeCode: 4422, retryable: false },
  rate_limited: { closeCode: 4429, retryable: true },
  ccu_limit: { closeCode: 4429, retryable: true },
  media_lost: { closeCode: 4504, retryable: true },
  slow_consumer: { closeCode: 4490, retryable: true },
  upgrade_required: { closeCode: 4400, retryable: false },
  not_found: { closeCode: 4400, retryable: false },
} as const;

/** Name of a fault on the wire. */
export type ErrorCode = keyof typeof CLOSE_CODES;
