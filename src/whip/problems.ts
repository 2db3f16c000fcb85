import type { ErrorCode } from '../protocol/close-codes.ts';

/**
 * Faults with which WHIP and WHEP answer, and when. Statuses are those of {@link ErrorCode} over REST. The table in docs/protocol.md
 * (§8) is made from this list.
 */
export const WHIP_PROBLEMS = {
  bad_request: 'not SDP; `peer` missing; a name that is not valid',
  unauthorized: 'no token or key, or one that is not known; for a POST, a token that has expired',
  minutes_exhausted: "the month's minutes are used up",
  forbidden:
    'the token does not allow publishing, or is for another room or peer; the account is suspended',
  not_found: "no such session, or somebody else's; the room `__lobby__`; no such peer for `from`",
  method_not_allowed: 'another method',
  replaced: 'a newer connection of the same peer came before the session was open',
  precondition_failed: '`If-Match` is stale',
  message_too_big: 'more than 64 KiB',
  unsupported_media_type: 'another `Content-Type`',
  unprocessable:
    'no audio, no Opus, no fingerprint, no ICE credentials, no `rtcp-mux`, a direction that does not fit',
  precondition_required: '`If-Match` is missing',
  ccu_limit: "the account's connections are in use",
  rate_limited:
    'too many requests: a POST counts as a connection, the rest as REST requests, and a PATCH as a text message of the account, too',
  internal_error: 'a fault of the gateway, which is logged',
  draining: 'the drain of the node ended before the session was open',
  overloaded: 'the node drains, or is overloaded; the node of the session does not answer',
  media_lost: 'the media worker died',
} as const satisfies Partial<Record<ErrorCode, string>>;
