import { CLOSE_CODES, type ErrorCode, isRetryable } from '../../../src/protocol/close-codes.ts';

/** Meaning of close codes, and delays between attempts (docs/protocol.md, "Errors on the WebSocket"). */

/** Reason for which a connection ended; `message` may be shown to the user. */
export type CloseReason = {
  /** `code` of the `error` that came before the close, or else the one that belongs to the close code. */
  code: string;
  closeCode: number;
  message: string;
  retryable: boolean;
  retryAfterMs?: number;
};

type CloseKind = { code: string; retryable: boolean; message: string };

const BROKEN: CloseKind = {
  code: 'protocol_error',
  retryable: true,
  message: 'The connection broke.',
};
const UNREACHABLE: CloseKind = {
  code: 'unreachable',
  retryable: true,
  message: 'The gateway cannot be reached.',
};

/** Close codes that the gateway does not choose: those of the WebSocket protocol, and of a lost connection. */
const OTHER_CLOSES: Record<number, CloseKind> = {
  1000: { code: 'closed', retryable: false, message: 'The gateway closed the connection.' },
  1001: { code: 'going_away', retryable: true, message: 'The gateway is going away.' },
  // A proxy or the network has changed or divided the bytes: the gateway keeps the place.
  1002: BROKEN,
  1007: BROKEN,
  1008: BROKEN,
  1006: UNREACHABLE,
  // A proxy does not reach the gateway.
  1014: UNREACHABLE,
  // Firefox closes with it where no TLS connection comes about: captive portal, expired
  // certificate, wrong clock.
  1015: {
    code: 'unreachable',
    retryable: true,
    message: 'There is no TLS connection to the gateway.',
  },
};

/** Sentences for the gateway's close codes. If several faults share a close code, one of them stands for all. */
const MESSAGES: Partial<Record<ErrorCode, string>> = {
  message_too_big: 'A message was too big.',
  internal_error: 'The gateway failed.',
  draining: 'The gateway is restarting.',
  overloaded: 'The gateway is overloaded.',
  bad_request: 'The gateway refused the request.',
  unauthorized: 'The API key is not valid.',
  minutes_exhausted: 'The account has no minutes left.',
  forbidden: 'Access was refused.',
  heartbeat_timeout: 'The connection went silent.',
  replaced: 'Another connection has taken this name.',
  ccu_limit: 'All connections are in use.',
  slow_consumer: 'This client read too slowly.',
  media_lost: 'The gateway lost the audio.',
};

/** Returns the meaning of a close code that came without an `error`; undefined if it is unknown. */
function closeKindOf(closeCode: number): CloseKind | undefined {
  for (const [code, message] of Object.entries(MESSAGES) as [ErrorCode, string][]) {
    if (CLOSE_CODES[code] === closeCode) return { code, retryable: isRetryable(code), message };
  }
  return OTHER_CLOSES[closeCode];
}

/** Close reason of a client whose `close()` was called. */
export const CLOSED_HERE: CloseReason = {
  code: 'closed',
  closeCode: 1000,
  message: 'The connection was closed here.',
  retryable: false,
};

/** Returns the reason for a close code that came without an `error` message before it. Unknown codes are final. */
export function reasonForCloseCode(closeCode: number, reason = ''): CloseReason {
  const kind = closeKindOf(closeCode) ?? {
    code: 'closed',
    retryable: false,
    message: `The connection was closed (code ${closeCode}).`,
  };
  return { ...kind, closeCode, message: reason || kind.message };
}

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 20_000;

/** Share of the time for which the place is still kept that the delay before an attempt may take. */
const DELAY_SHARE = 1 / 4;

/** Maximum wait for `welcome`, ms. */
const LONGEST_WELCOME_MS = 10_000;
/**
 * Share of the time for which the place is still kept that an attempt may wait for `welcome`: there must be time for another attempt.
 */
const WELCOME_SHARE = 1 / 3;
const SHORTEST_WELCOME_MS = 3000;

/**
 * Returns the delay before the next attempt, ms. It doubles from half a second to 20 s, and is shorter while the gateway keeps the
 * client's place. Its upper half is random, so that the clients of a node that has ended do not all return at the same moment.
 * @param attempt number of attempts that failed in a row, from 0
 * @param keptMs time for which the gateway still keeps the place, ms; 0 or less if it does not
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

/** Returns the time that an attempt may take until `welcome`, ms. @param keptMs as of {@link retryDelayMs} */
export function welcomeTimeoutMs(keptMs: number): number {
  if (keptMs <= 0) return LONGEST_WELCOME_MS;
  return Math.min(LONGEST_WELCOME_MS, Math.max(SHORTEST_WELCOME_MS, keptMs * WELCOME_SHARE));
}
