import { type IceCredentials, readIceCredentials, ufragsOf } from './offer.ts';
import { parseFragmentText, unusable } from './sdp-text.ts';

/** Credentials of a restart, and the `ufrag` of each section. */
export type FragmentCredentials = IceCredentials & { ufrags: ReadonlySet<string> };

/**
 * Reads the body of a PATCH (RFC 8840 §4.4). Candidates are of no use to an ICE lite agent, which learns them from the client's
 * checks.
 * @returns the client's ICE credentials, and the `ufrags` of all its sections; undefined if it has only candidates
 * @throws {PartylineError} `bad_request` if it is no fragment, `unprocessable` if the credentials cannot be used
 */
export function readFragment(text: string): FragmentCredentials | undefined {
  const session = parseFragmentText(text);
  const levels = [...session.media, session];
  const ufrag = levels.find(({ iceUfrag }) => iceUfrag !== undefined)?.iceUfrag;
  const pwd = levels.find(({ icePwd }) => icePwd !== undefined)?.icePwd;
  if ((ufrag === undefined) !== (pwd === undefined)) {
    throw unusable('"a=ice-ufrag" and "a=ice-pwd" must be given together');
  }
  const credentials = readIceCredentials(ufrag, pwd);
  return credentials && { ...credentials, ufrags: ufragsOf(levels) };
}

/** Result of the comparison of an `If-Match` header; `any` is that of `*`. */
export type Precondition = 'any' | 'met' | 'failed' | 'missing';

/**
 * Compares an `If-Match` header with the ETag of an ICE session (RFC 9110 §13.1.1). The `*` of a restart
 * comes with and without quotes.
 * @param etag ETag of the session, with its quotes
 */
export function checkIfMatch(header: string | undefined, etag: string): Precondition {
  if (header === undefined || header.trim() === '') return 'missing';
  const tags = header.split(',').map((tag) => tag.trim());
  if (tags.some((tag) => tag === '*' || tag === '"*"')) return 'any';
  return tags.includes(etag) ? 'met' : 'failed';
}
