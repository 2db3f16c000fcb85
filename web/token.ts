import { reasonForCloseCode, TokenError } from 'partyline-client';
import { CLOSE_CODES } from '../src/protocol/close-codes.ts';
import { mayBeKey } from './key.ts';

/** Lifetime of a token, s: long enough to connect; the connection may outlast it. */
const TTL_SECONDS = 60;
/** Longest wait for an answer, ms: less than the client waits for a token. */
const TIMEOUT_MS = 8_000;

/** Answer of the gateway instead of a token (RFC 9457). */
type Problem = { code?: string; detail?: string };

/**
 * Exchanges an API key for a token with which `peer` may connect, to any room, so that the key itself is in no address.
 * @param url of `POST /api/tokens`
 * @throws {TokenError}
 */
export async function askForToken(url: URL, apiKey: string, peer: string): Promise<string> {
  const body = { peer, rooms: '*', ttl_seconds: TTL_SECONDS, publish: true };
  const { token } = await post<{ token: string }>(url, body, apiKey);
  return token;
}

/**
 * Sends a request whose answer leads to a connection.
 * @param apiKey sent with the request; nothing is, if it is undefined
 * @throws {TokenError}
 */
export async function post<T>(url: URL, body: object, apiKey?: string): Promise<T> {
  if (apiKey !== undefined && !mayBeKey(apiKey)) {
    throw new TokenError(reasonForCloseCode(CLOSE_CODES.unauthorized));
  }
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  let response: Response;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { ...authorization, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch {
    // The browser does not say what was wrong.
    throw new TokenError(reasonForCloseCode(1006));
  }
  if (response.ok) return (await response.json()) as T;
  const { code = 'internal_error', detail = response.statusText } = (await response
    .json()
    .catch(() => ({}))) as Problem;
  const retryAfterS = Number(response.headers.get('retry-after') ?? 0);
  throw new TokenError({
    code,
    closeCode: 1006,
    message: detail,
    retryable: response.status === 429 || response.status >= 500,
    ...(retryAfterS > 0 && { retryAfterMs: retryAfterS * 1000 }),
  });
}
