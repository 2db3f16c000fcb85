import { type CloseReason, reasonForCloseCode, TokenError } from 'partyline-client';
import { CLOSE_CODES } from '../src/protocol/close-codes.ts';
import { mayBeKey } from './key.ts';
import type { Entry } from './page-state.ts';
import { problemIn } from './problem.ts';

/** Lifetime of a token, s: long enough to connect; the connection may outlast it. */
const TTL_SECONDS = 60;
/** Longest wait for an answer, ms: less than the client waits for a token. */
const TIMEOUT_MS = 8_000;

/** Answer of the gateway, and its Unix time when it sent it, ms. */
type Answer<T> = { answer: T; sentWallMs: number };

/**
 * Exchanges an API key for a token with which `peer` may connect, to any room, so that the key itself is in no address.
 * @throws {TokenError}
 */
export async function askForToken({
  apiKey,
  peer,
}: Pick<Entry, 'apiKey' | 'peer'>): Promise<string> {
  const url = new URL('api/tokens', document.baseURI);
  const body = { peer, rooms: '*', ttl_seconds: TTL_SECONDS, publish: true };
  const { answer } = await post<{ token: string }>(url, body, apiKey);
  return answer.token;
}

/**
 * Sends a request whose answer leads to a connection.
 * @param apiKey sent with the request; nothing is, if it is undefined
 * @throws {TokenError}
 */
export async function post<T>(url: URL, body: object, apiKey?: string): Promise<Answer<T>> {
  if (apiKey !== undefined && !mayBeKey(apiKey)) {
    // Not 4401, with which a connection is closed whose key was valid.
    const { closeCode } = reasonForCloseCode(1006);
    throw new TokenError({ ...reasonForCloseCode(CLOSE_CODES.unauthorized), closeCode });
  }
  const authorization = apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...authorization, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch(() => undefined); // The browser does not say what was wrong.
  const answer: unknown = await response?.json().catch(() => undefined);
  if (response?.ok && answer !== undefined) {
    const sentWallMs = Date.parse(response.headers.get('date') ?? '') || Date.now();
    return { answer: answer as T, sentWallMs };
  }
  throw new TokenError(reasonFor(response, answer));
}

/**
 * Returns why there is no token; its close code is that of a connection which did not come about. Only the gateway refuses for good: a proxy answers in its place while it is away, with
 * any status.
 */
function reasonFor(response: Response | undefined, answer: unknown): CloseReason {
  const unreachable = reasonForCloseCode(1006);
  const problem = problemIn(answer);
  const status = response?.status ?? 0;
  const retryAfterS = Number(response?.headers.get('retry-after') ?? 0);
  return {
    ...unreachable,
    ...(problem && {
      code: problem.code,
      message: problem.detail,
      retryable: status === 429 || status >= 500,
    }),
    ...(retryAfterS > 0 && { retryAfterMs: retryAfterS * 1000 }),
  };
}
