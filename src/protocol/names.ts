import { PartylineError, type ErrorCode } from '../protocol/errors.ts';

/** Where a peer is while it is in no room. */
export const LOBBY = '__lobby__';

const MAX_NAME_CHARACTERS = 128;
/** Control characters, lone surrogates and line separators print nothing, or worse. */
const UNPRINTABLE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u;

/**
 * Checks the name of a room or a peer (docs/protocol.md, "Names").
 * @param what how the fault names it
 * @throws {PartylineError} with the given code
 */
export function checkName(name: string, what: string, code: ErrorCode): string {
  const fail = (fault: string) => new PartylineError(code, `"${what}" ${fault}.`);
  const characters = Array.from(name).length;
  if (characters === 0) throw fail('must not be empty');
  if (characters > MAX_NAME_CHARACTERS) {
    throw fail(`must have at most ${MAX_NAME_CHARACTERS} characters`);
  }
  if (UNPRINTABLE.test(name)) throw fail('must be printable');
  if (name.startsWith('__')) throw fail('must not begin with "__", which is reserved');
  return name;
}
