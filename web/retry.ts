/** What a closed socket means, and when to knock again (docs/protocol.md, "Errors on the WebSocket"). */

/** Why a connection ended, in words that may be shown. */
export type CloseReason = {
  /** The `code` of the `error` that came before, or of the table for the close code. */
  code: string;
  closeCode: number;
  message: string;
  retryable: boolean;
  retryAfterMs?: number;
};

type CloseKind = { code: string; retryable: boolean; message: string };

/** What to make of a close code that no `error` explained. Codes that are not listed are final. */
const CLOSE_KINDS: Record<number, CloseKind> = {
  1000: { code: 'closed', retryable: false, message: 'The gateway closed the connection.' },
  1001: { code: 'going_away', retryable: true, message: 'The gateway is going away.' },
  1006: {
    code: 'unreachable',
    retryable: true,
    message: 'The gateway is not there, or the network is down.',
  },
  1009: { code: 'message_too_big', retryable: false, message: 'A message was too big.' },
  1011: { code: 'internal_error', retryable: true, message: 'A fault in the gateway.' },
  1012: { code: 'draining', retryable: true, message: 'The gateway is restarting.' },
  1013: { code: 'overloaded', retryable: true, message: 'The gateway is overloaded.' },
  4400: { code: 'bad_request', retryable: false, message: 'The gateway refused the request.' },
  4401: { code: 'unauthorized', retryable: false, message: 'The API key is not valid.' },
  4402: { code: 'minutes_exhausted', retryable: false, message: 'The minutes are used up.' },
  4403: { code: 'forbidden', retryable: false, message: 'This account may not do that.' },
  4408: { code: 'heartbeat_timeout', retryable: true, message: 'The connection went silent.' },
  4409: {
    code: 'replaced',
    retryable: false,
    message: 'Another connection has taken this name.',
  },
  4429: { code: 'ccu_limit', retryable: true, message: 'All connections are in use.' },
  4490: { code: 'slow_consumer', retryable: true, message: 'This client did not keep up.' },
  4504: { code: 'media_lost', retryable: true, message: 'The gateway lost the audio.' },
};

/** The reason for a close code that came without an `error` message before it. */
export function reasonForCloseCode(closeCode: number, reason = ''): CloseReason {
  const kind = CLOSE_KINDS[closeCode] ?? {
    code: 'closed',
    retryable: false,
    message: `The connection was closed (code ${closeCode}).`,
  };
  return { ...kind, closeCode, message: reason || kind.message };
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 20_000;

/** While the place is kept, the next attempt comes within this share of the time that is left. */
const DELAY_SHARE = 1 / 4;

/** Longest wait for `welcome`. */
const LONGEST_WELCOME_MS = 10_000;
/** The same while the place is kept: an attempt that found no way must not use up the time that is left. */
const WELCOME_SHARE = 1 / 3;
const SHORTEST_WELCOME_MS = 3000;

/**
 * Delay before the next attempt, ms: doubles from half a second to 20 s, the upper half of it at random, so that the clients of a
 * node that went away do not all come back in the same instant. Shorter while the gateway keeps our place.
 * @param attempt number of attempts that failed in a row, from 0
 * @param keptMs how long the gateway keeps our place from now on; 0 or less if it does not
 */
export function retryDelayMs(
  attempt: number,
  retryAfterMs = 0,
  keptMs = 0,
  random: () => number = Math.random,
): number {
  const backOffMs = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 16));
  const withinMs = keptMs > 0 ? Math.max(FIRST_DELAY_MS, keptMs * DELAY_SHARE) : Infinity;
  return Math.round(retryAfterMs + Math.min(backOffMs, withinMs) * (0.5 + random() / 2));
}

/** How long an attempt may take until `welcome`, ms. @param keptMs as of {@link retryDelayMs} */
export function welcomeTimeoutMs(keptMs: number): number {
  if (keptMs <= 0) return LONGEST_WELCOME_MS;
  return Math.min(LONGEST_WELCOME_MS, Math.max(SHORTEST_WELCOME_MS, keptMs * WELCOME_SHARE));
}
